package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/punch"
	"cadre.dev/overlay/internal/signal"
)

// finding makes a node that may look for paths, at a rendezvous that is not there.
func finding(searches int) func(*Config) {
	return func(c *Config) {
		c.Rendezvous = []Rendezvous{{URL: "https://127.0.0.1:1"}}
		c.limits.searches, c.limits.loopback = searches, true
	}
}

func (t *turns) waiters() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// TestALinkSearchesOneAtATime: whatever the Peer offers, one search of a Link waits or
// runs, and it is the last that was offered.
func TestALinkSearchesOneAtATime(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, finding(1)), w.node("db", "b", 2, finding(1))
	b.SetPeers([]Peer{b.sees(a, nil, nil)}) // a dials
	for range 2 {
		if err := b.follows.take(t.Context(), no); err != nil {
			t.Fatal(err)
		}
	}
	l := b.linkTo(a)
	const offers = 20
	for epoch := uint64(1); epoch <= offers; epoch++ {
		l.signaled(identity.Verified{ID: a.id, BootID: a.bootID()}, signal.Message{
			Type: signal.Offer, Epoch: epoch, Search: "0123456789abcdef", Key: make([]byte, signal.KeyLen),
		})
	}
	eventually(t, "the last one to wait for its turn", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return b.follows.waiters() == 1 && l.finder.next == nil && l.finder.epoch == offers
	})
	if got := b.Sessions()[0]; got.Attempts != 0 || !got.Searching {
		t.Errorf("without a place: %d searches began, searching %v", got.Attempts, got.Searching)
	}
	b.follows.give()
	b.follows.give()
	eventually(t, "one search begun", func() bool { return b.Sessions()[0].Attempts == 1 })
	b.stop()
	if n := b.follows.waiters(); n != 0 || b.follows.free != 2 {
		t.Errorf("%d wait and %d places are free after the end, want none and 2", n, b.follows.free)
	}
}

// TestANudgeIsTakenBack: where many Links come up at once a nudge waits for its turn, and
// the Peer must not be asked for what it does already.
func TestANudgeIsTakenBack(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, finding(1)), w.node("db", "b", 2, finding(1))
	if err := b.nudges.take(t.Context(), no); err != nil {
		t.Fatal(err)
	}
	b.SetPeers([]Peer{b.sees(a, nil, nil)}) // a dials
	eventually(t, "a nudge that waits", func() bool { return b.nudges.waiters() == 1 })
	l := b.linkTo(a)
	l.signaled(identity.Verified{ID: a.id, BootID: a.bootID()}, signal.Message{
		Type: signal.Offer, Epoch: 1, Search: "0123456789abcdef", Key: make([]byte, signal.KeyLen),
	})
	eventually(t, "no nudge that waits", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return b.nudges.waiters() == 0 && !l.finder.nudging && !l.finder.nudgeDue
	})
	l.mu.Lock()
	l.nudgeLocked(a.bootID())
	l.mu.Unlock()
	eventually(t, "the next one", func() bool { return b.nudges.waiters() == 1 })
	b.nudges.give()
}

// TestEpochsGoOnWhenTheClockIsSetBack: a Peer ignores a search below one that it has
// seen (OVL-03).
func TestEpochsGoOnWhenTheClockIsSetBack(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	first := epochBase(now, 0)
	if got := epochBase(now.Add(-time.Hour), first+3); got != first+3 {
		t.Errorf("an hour back the epochs begin after %d, want %d", got, first+3)
	}
	if got := epochBase(now.Add(time.Hour), first+3); got <= first+3 {
		t.Errorf("an hour on the epochs begin after %d, want more than %d", got, first+3)
	}
	if got := epochBase(time.Unix(-1, 0), 0); got != 0 {
		t.Errorf("before 1970 the epochs begin after %d", got)
	}
}

func TestWaitingMessagesOfASearchAreJoined(t *testing.T) {
	c := func(lines ...string) signal.Message {
		return signal.Message{Type: signal.Candidates, Candidates: lines}
	}
	tcp := signal.Message{Type: signal.Candidates, TCP: []signal.TCPCandidate{{Kind: "host"}}, OneWayMicros: 7}
	bye := signal.Message{Type: signal.Bye}
	full := c(slices.Repeat([]string{"x"}, signal.MaxCandidates)...)

	more := make(chan signal.Message, outboxLen)
	for _, m := range []signal.Message{c("b"), tcp, {Type: signal.Candidates, Last: true}, full, c("c"), bye} {
		more <- m
	}
	got := takeReady([]signal.Message{{Type: signal.Offer, Candidates: []string{"a"}}}, more)
	if len(got) != 3 {
		t.Fatalf("%d messages, want 3: %+v", len(got), got)
	}
	offer := got[0]
	if offer.Type != signal.Offer || !slices.Equal(offer.Candidates, []string{"a", "b"}) || len(offer.TCP) != 1 || offer.OneWayMicros != 7 || !offer.Last {
		t.Errorf("the offer became %+v", offer)
	}
	if len(got[1].Candidates) != signal.MaxCandidates {
		t.Errorf("a full message became %+v", got[1])
	}
	if got[2].Type != signal.Bye {
		t.Errorf("the last is %+v, want the bye alone", got[2])
	}
}

// TestARendezvousThatIsBackIsNoSecondWish: the search that waits for a rendezvous begins
// when one is there, and no other has to follow it.
func TestARendezvousThatIsBackIsNoSecondWish(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, finding(1)), w.node("db", "b", 2, finding(1))
	a.SetPeers([]Peer{a.sees(b, nil, nil)}) // a dials
	l := a.linkTo(b)
	eventually(t, "a search that waits", func() bool { return a.Sessions()[0].Searching })
	l.mu.Lock()
	before := l.state
	l.mu.Unlock()
	l.hoped()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !reflect.DeepEqual(l.state, before) {
		t.Errorf("another search is wanted: %+v, before %+v", l.state, before)
	}
}

// TestAByeWaitsForTheLastOfAHandshake: the Peer may use a stream that has not become a
// Session here yet.
func TestAByeWaitsForTheLastOfAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &search{name: "0123456789abcdef", ended: make(chan part, 4)}
		bye := signal.Message{Type: signal.Bye, Search: s.name}
		begin := time.Now()
		if done, err := s.message(t.Context(), bye); !done || err != nil || time.Since(begin) != 0 {
			t.Errorf("without a stream: done %v, error %v, after %v", done, err, time.Since(begin))
		}
		s.welcoming.Store(true)
		time.AfterFunc(time.Second, func() { s.ended <- part{name: partTCP} })
		if done, err := s.message(t.Context(), bye); !done || err != nil || time.Since(begin) != time.Second {
			t.Errorf("with a stream: done %v, error %v, after %v", done, err, time.Since(begin))
		}
		if s.message(t.Context(), bye); time.Since(begin) != time.Second+lingerLimit {
			t.Errorf("a handshake that stands still holds a search for %v", time.Since(begin))
		}
	})
}

// Another try soon is for bad luck: a translator that lets nothing in will not do better.
func TestUnluckySearches(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"found":                    {nil, false},
		"nothing comes in":         {fmt.Errorf("tcp: %w", punch.ErrNoConnection), false},
		"the peer has no TCP":      {errNoPeerTCP, false},
		"no reflector answered":    {errors.Join(fmt.Errorf("tcp: %w", punch.ErrNoCandidates)), true},
		"handshake broke off":      {errors.Join(fmt.Errorf("tcp: %w: %w", errNoDirect, io.EOF)), true},
		"handshake was still on":   {errors.Join(errors.New("udp"), errSlowSearch), true},
		"another search was begun": {context.Canceled, false},
	} {
		if got := unlucky(c.err); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
