package consulproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestDOR05_SharesOfOneAndOfAll(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newShares(Limits{Conns: 2, AllConns: 3, Running: 1, AllRunning: 2, Blocked: 1, AllBlocked: 1, Rate: 2, Burst: 4}, func() time.Time { return now })
	var ends []func()
	open := func(slot string, want bool) {
		t.Helper()
		done, ok := s.conn(slot)
		if ok != want {
			t.Errorf("connection of %s: %v, want %v", slot, ok, want)
		}
		if ok {
			ends = append(ends, done)
		}
	}
	open("a", true)
	open("a", true)
	open("a", false) // its own places are taken
	open("b", true)
	open("b", false) // all places are taken
	ends[0]()
	open("c", true)

	done, refused := s.request("a", false)
	if _, more := s.request("a", false); refused != nil || more == nil {
		t.Error("a has two open requests")
	}
	// Blocking queries have places of their own.
	blocked, refused := s.request("a", true)
	if refused != nil {
		t.Error("a cannot wait")
	}
	done()
	blocked()
	taken := 0
	for ; s.take("a", 1, false) == nil; taken++ {
	}
	if taken != 4 || s.take("b", 1, false) != nil {
		t.Errorf("a made %d requests at once, want 4, and b is held by it", taken)
	}
	now = now.Add(time.Second)
	if s.take("a", 3, false) == nil || s.take("a", 2, false) != nil {
		t.Error("a request that counts for three was taken in a second of two, or one for two was not")
	}
	// A Peer that disconnects and returns has no fresh bucket. A Peer without debt is forgotten.
	ends[1]()
	if done, ok := s.conn("a"); !ok || s.take("a", 1, false) == nil {
		t.Error("a new connection gave a fresh bucket")
	} else {
		now = now.Add(time.Minute)
		done()
	}
	if _, known := s.peers["a"]; known {
		t.Error("a is not forgotten")
	}
}

func TestDOR05_ConsulsPlacesOfAll(t *testing.T) {
	s := newShares(Limits{AllRunning: 2, AllBlocked: 1}, time.Now)
	for _, blocks := range []bool{false, true} {
		var taken []*place
		for {
			one := s.place(blocks)
			if one.take() != nil {
				one.leave() // an untaken place gives nothing back
				break
			}
			taken = append(taken, one)
		}
		if want := map[bool]int{false: 2, true: 1}[blocks]; len(taken) != want {
			t.Errorf("blocks %t: %d at once, want %d", blocks, len(taken), want)
		}
		taken[0].leave()
		taken[0].leave()
		if refused := s.place(blocks).take(); refused != nil {
			t.Errorf("blocks %t: a place that was given back is not free: %v", blocks, refused)
		}
		if s.place(blocks).take() == nil {
			t.Errorf("blocks %t: a place was given back twice", blocks)
		}
	}
}

// A Peer that sent or received more than its share waits until the debt is paid off.
func TestDOR06_BytesOfOneAndOfAll(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newShares(Limits{Sent: 10, SentBurst: 100, Answered: 10, AnsweredBurst: 100, Answer: 150, Unread: 200, AllUnread: 300, Little: 10}, func() time.Time { return now })
	can := func(slot string, body, want bool) {
		t.Helper()
		if refused := s.take(slot, 1, body); (refused == nil) != want {
			t.Errorf("%s, with a body %t: %v", slot, body, refused)
		}
	}
	s.sent("a", 120)
	can("a", true, false)
	can("a", false, true) // requests without a body continue
	can("b", true, true)
	now = now.Add(3 * time.Second)
	can("a", true, true)

	get := func(slot string, before, n int, must bool, want string) {
		t.Helper()
		refused := s.unread(slot, before, n, must)
		if refused == nil != (want == "") || refused != nil && refused.Code != want {
			t.Errorf("%s gets %d after %d: %v, want %s", slot, n, before, refused, want)
		}
	}
	get("a", 0, 100, false, "")
	get("a", 100, 51, false, CodeInvalid) // of one answer
	get("a", 100, 50, false, "")
	can("a", false, false) // its answers exceeded its share
	get("a", 0, 51, false, CodeOverloaded)
	get("b", 0, 150, false, "")
	get("b", 0, 1, false, CodeOverloaded) // the room of all Peers is used up
	get("c", 0, 11, false, CodeOverloaded)
	get("c", 0, 10, false, "") // each Peer always has a little
	can("c", false, false)
	get("c", 10, 1, true, "") // a request with an effect is answered
	if _, refused := s.reserve("d"); refused == nil {
		t.Error("the room of a largest answer is reserved where there is none")
	}
	s.read("a", 150)
	get("c", 11, 1, false, "")
	s.read("b", 150)
	over, refused := s.reserve("d")
	if refused != nil {
		t.Error(refused)
	}
	get("d", 0, 51, false, CodeOverloaded) // the room of the Peer is used up
	over()
	get("d", 0, 51, false, "")
	now = now.Add(time.Minute)
	can("a", false, true)
}

type asked struct {
	slots map[string]string
	err   error
	n     int
}

func (a *asked) Owner(_ context.Context, secret string) (string, error) {
	a.n++
	return a.slots[secret], a.err
}

func TestDOR02_OwnersAreRemembered(t *testing.T) {
	now := time.Unix(1000, 0)
	consul := &asked{slots: map[string]string{"good": "pg-1"}}
	o := newOwners(consul, func() time.Time { return now })
	o.most = 2
	lookup := func(secret, want string, asks int) {
		t.Helper()
		before := consul.n
		if got, err := o.of(t.Context(), secret); err != nil || got != want || consul.n-before != asks {
			t.Errorf("%s: %q, %v, asked %d times; want %q, %d", secret, got, err, consul.n-before, want, asks)
		}
	}
	lookup("good", "pg-1", 1)
	lookup("good", "pg-1", 0)
	lookup("bad", "", 1)
	lookup("bad", "", 0)
	now = now.Add(unknownFor + 1)
	lookup("bad", "", 1)
	lookup("good", "pg-1", 0)
	now = now.Add(knownFor)
	lookup("good", "pg-1", 1)
	for i := range 100 {
		lookup(fmt.Sprint(i), "", 1)
	}
	if len(o.known) != 2 || o.recent.Len() != 2 {
		t.Errorf("%d, %d are remembered, want 2", len(o.known), o.recent.Len())
	}
	// A failed lookup is not cached.
	consul.err = errors.New("away")
	if _, err := o.of(t.Context(), "new"); err == nil {
		t.Error("no error")
	}
	consul.err = nil
	lookup("new", "", 1)
}

func TestDOR02_TokenOf(t *testing.T) {
	for _, c := range []struct {
		header    http.Header
		parameter string
		want      string
		bad       bool
	}{
		{http.Header{"X-Consul-Token": {"a"}}, "", "a", false},
		{http.Header{"Authorization": {"Bearer a"}}, "", "a", false},
		{http.Header{}, "a", "a", false},
		{http.Header{"X-Consul-Token": {"a"}, "Authorization": {"bearer a"}}, "a", "a", false},
		{http.Header{"X-Consul-Token": {"a"}, "Authorization": {"Bearer b"}}, "", "", true},
		{http.Header{"X-Consul-Token": {"a", "b"}}, "", "", true},
		{http.Header{"X-Consul-Token": {"a"}}, "b", "", true},
		{http.Header{"Authorization": {"Basic a"}}, "", "", true},
		{http.Header{"X-Consul-Token": {string(make([]byte, maxToken+1))}}, "", "", true},
		{http.Header{}, "", "", false},
	} {
		if got, err := tokenOf(c.header, c.parameter); got != c.want || (err != nil) != c.bad {
			t.Errorf("%v %q: %q, %v", c.header, c.parameter, got, err)
		}
	}
}
