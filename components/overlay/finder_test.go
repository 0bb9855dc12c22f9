package overlay

import (
	"reflect"
	"testing"
	"time"

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

// TestALinkSearchesOneAtATime: whatever the Peer offers, one search of a Link waits or
// runs, and it is the last that was offered.
func TestALinkSearchesOneAtATime(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, finding(1)), w.node("db", "b", 2, finding(1))
	b.SetPeers([]Peer{b.sees(a, nil, nil)}) // a dials
	release := b.paths.field.Occupy(t.Context())
	l := b.linkTo(a)
	const offers = 20
	for epoch := uint64(1); epoch <= offers; epoch++ {
		l.signaled(identity.Verified{ID: a.id, BootID: a.bootID()}, signal.Message{
			Type: signal.Offer, Epoch: epoch, Search: "0123456789abcdef", Key: make([]byte, signal.KeyLen),
		})
	}
	eventually(t, "the last one to wait for its turn", func() bool {
		epoch, pending := l.finder.Pending()
		return b.paths.field.Load().Follows.Waiting == 1 && !pending && epoch == offers
	})
	if got := b.Sessions()[0]; got.Attempts != 0 || !got.Searching {
		t.Errorf("without a place: %d searches began, searching %v", got.Attempts, got.Searching)
	}
	release()
	eventually(t, "one search begun", func() bool { return b.Sessions()[0].Attempts == 1 })
	b.stop()
	if got := b.paths.field.Load().Follows; got.Waiting != 0 || got.Free != 2 {
		t.Errorf("%d wait and %d places are free after the end, want none and 2", got.Waiting, got.Free)
	}
}

// TestANudgeIsTakenBack: where many Links come up at once a nudge waits for its turn, and
// the Peer must not be asked for what it does already.
func TestANudgeIsTakenBack(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, finding(1)), w.node("db", "b", 2, finding(1))
	release := b.paths.field.Occupy(t.Context())
	b.SetPeers([]Peer{b.sees(a, nil, nil)}) // a dials
	eventually(t, "a nudge that waits", func() bool { return b.paths.field.Load().Nudges.Waiting == 1 })
	l := b.linkTo(a)
	l.signaled(identity.Verified{ID: a.id, BootID: a.bootID()}, signal.Message{
		Type: signal.Offer, Epoch: 1, Search: "0123456789abcdef", Key: make([]byte, signal.KeyLen),
	})
	eventually(t, "no nudge that waits", func() bool {
		return b.paths.field.Load().Nudges.Waiting == 0 && !l.finder.Nudging()
	})
	l.finder.Nudge(a.bootID(), false)
	eventually(t, "the next one", func() bool { return b.paths.field.Load().Nudges.Waiting == 1 })
	release()
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
