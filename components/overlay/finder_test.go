package overlay

import (
	"reflect"
	"testing"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/signal"
)

// finding makes a node that may look for paths, at a rendezvous that is not there.
func finding(searches int) func(*Config) {
	return func(c *Config) {
		c.Rendezvous = []Rendezvous{{URL: "https://127.0.0.1:1"}}
		c.limits.searches, c.limits.loopback = searches, true
	}
}

// Regardless of the Peer's offers, one search of a Link waits or runs, and it is the last
// offered one.
func TestALinkSearchesOneAtATime(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, finding(1)), w.node("db", "b", 2, finding(1))
	b.SetPeers([]Peer{b.sees(a, nil, nil)}) // a dials
	field := b.running.field
	release := field.Occupy(t.Context())
	l := b.linkTo(a)
	const offers = 20
	for epoch := uint64(1); epoch <= offers; epoch++ {
		l.Heard(identity.Verified{ID: a.id, BootID: a.bootID()}, signal.Message{
			Type: signal.Offer, Epoch: epoch, Search: "0123456789abcdef", Key: make([]byte, signal.KeyLen),
		})
	}
	eventually(t, "the last one to wait for its turn", func() bool {
		epoch, pending := l.Finder().Pending()
		return field.Load().Follows.Waiting == 1 && !pending && epoch == offers
	})
	if got := b.Sessions()[0]; got.Searches != 0 || !got.Searching {
		t.Errorf("without a place: %d searches began, searching %v", got.Searches, got.Searching)
	}
	release()
	eventually(t, "one search begun", func() bool { return b.Sessions()[0].Searches == 1 })
	b.stop()
	if got := field.Load().Follows; got.Waiting != 0 || got.Free != 2 {
		t.Errorf("%d wait and %d places are free after the end, want none and 2", got.Waiting, got.Free)
	}
}

// Where many Links come up at once, a nudge waits for its turn. It is withdrawn when the
// Peer starts the search without it.
func TestANudgeIsTakenBack(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, finding(1)), w.node("db", "b", 2, finding(1))
	field := b.running.field
	release := field.Occupy(t.Context())
	b.SetPeers([]Peer{b.sees(a, nil, nil)}) // a dials
	eventually(t, "a nudge that waits", func() bool { return field.Load().Nudges.Waiting == 1 })
	l := b.linkTo(a)
	l.Heard(identity.Verified{ID: a.id, BootID: a.bootID()}, signal.Message{
		Type: signal.Offer, Epoch: 1, Search: "0123456789abcdef", Key: make([]byte, signal.KeyLen),
	})
	eventually(t, "no nudge that waits", func() bool {
		return field.Load().Nudges.Waiting == 0 && !l.Finder().Nudging()
	})
	l.Finder().Nudge(a.bootID(), false)
	eventually(t, "the next one", func() bool { return field.Load().Nudges.Waiting == 1 })
	release()
}

// TestARendezvousThatIsBackIsNoSecondWish: the search that waits for a rendezvous begins
// when one is there, and no other has to follow it.
func TestARendezvousThatIsBackIsNoSecondWish(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, finding(1)), w.node("db", "b", 2, finding(1))
	a.SetPeers([]Peer{a.sees(b, nil, nil)}) // a dials
	l := a.linkTo(b)
	eventually(t, "a search that waits", func() bool { return a.Sessions()[0].Searching })
	before := l.View().State
	l.RendezvousUp()
	if after := l.View().State; !reflect.DeepEqual(after, before) {
		t.Errorf("another search is wanted: %+v, before %+v", after, before)
	}
}
