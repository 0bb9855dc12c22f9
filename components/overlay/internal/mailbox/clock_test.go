package mailbox

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/overlay/internal/identity/identitytest"
	"cadre.dev/overlay/internal/signal"
)

// TestClockJump moves one member's wall clock. Within the allowed skew the jump has no effect.
// Beyond it that member's messages, and those to it, are refused until its clock is right
// again. No message arrives twice, with any clock (OVL-03).
func TestClockJump(t *testing.T) {
	ca := identitytest.NewAuthority(t, "test.cadre")
	server := newChaos(t)
	server.hello.ICE = []ICEServer{
		{URL: "turn:8.8.8.8:3478?transport=udp", Username: "u", Password: "p", Expires: time.Now().Add(10 * time.Minute)},
	}
	var mu sync.Mutex
	var last []byte
	server.onSend = func(c *chaos, to string, envelope []byte) {
		mu.Lock()
		last = bytes.Clone(envelope)
		mu.Unlock()
		c.deliver(to, envelope)
	}
	var offset atomic.Int64
	a := newMemberAt(t, ca, "db-0", func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }, server)
	b := newMember(t, ca, "db-1", server)
	epoch := uint64(0)
	exchange := func(from, to *member) bool {
		t.Helper()
		epoch++
		before := to.Status()[0]
		if err := from.Send(t.Context(), to.id, "", say(epoch)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the message judged", func() bool {
			now := to.Status()[0]
			return now.Received+now.Forged+now.Duplicates > before.Received+before.Forged+before.Duplicates
		})
		select {
		case in := <-to.Messages():
			return in.Message.Epoch == epoch
		default:
			return false
		}
	}
	for _, jump := range []struct {
		to      time.Duration
		arrives bool
	}{
		{0, true},
		{signal.Skew - time.Minute, true},
		{-signal.Skew + time.Minute, true}, // back by eight minutes at once
		{time.Hour, false},
		{0, true},
		{-time.Hour, false},
		{0, true}, // repaired, and neither numbers nor epochs have suffered
	} {
		offset.Store(int64(jump.to))
		if got := exchange(a, b); got != jump.arrives {
			t.Errorf("clock off by %v: a message of that member arrives: %v, want %v", jump.to, got, jump.arrives)
		}
		if got := exchange(b, a); got != jump.arrives {
			t.Errorf("clock off by %v: a message to that member arrives: %v, want %v", jump.to, got, jump.arrives)
		}
		if len(a.ICEServers()) != 1 {
			t.Errorf("clock off by %v: the relay is gone", jump.to)
		}
	}

	// An expired message comes again when the clock makes it look valid.
	offset.Store(int64(signal.Skew - time.Minute))
	if !exchange(b, a) {
		t.Fatal("a message within the skew does not arrive")
	}
	offset.Store(0)
	before := a.Status()[0]
	mu.Lock()
	again := last
	mu.Unlock()
	server.deliver("db-0", again)
	eventually(t, "the repeated message refused", func() bool { return a.Status()[0].Duplicates > before.Duplicates })
	select {
	case in := <-a.Messages():
		t.Errorf("message %d came twice", in.Message.Epoch)
	default:
	}
}

// A waiter for a server is notified that the server is reachable, and that it is gone.
func TestChangesAreReported(t *testing.T) {
	ca := identitytest.NewAuthority(t, "test.cadre")
	server := newChaos(t)
	m := newMember(t, ca, "db-0", server)
	changed := m.Changed()
	server.mu.Lock()
	s := server.sockets["db-0"]
	server.mu.Unlock()
	_ = s.ws.CloseNow()
	for _, want := range []bool{false, true} {
		for m.Status()[0].Connected != want {
			select {
			case <-changed:
				changed = m.Changed()
			case <-time.After(10 * time.Second):
				t.Fatalf("connected did not become %v", want)
			}
		}
	}
}
