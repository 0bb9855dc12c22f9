package search

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"cadre.dev/overlay/internal/ice"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/punch"
	"cadre.dev/overlay/internal/signal"
	"cadre.dev/overlay/internal/underlay"
	pathstate "cadre.dev/overlay/internal/underlay/paths"
)

// Owner is the Link that a [Finder] finds paths for. The Finder holds none of its locks
// while it calls these methods, except in Launch. Launch must take none of the Link's
// locks.
type Owner interface {
	// Has reports whether a Session of a class lives, HasDatagrams whether a Session over
	// UDP lives. Best is the class of the Session in use.
	Has(link.Class) bool
	HasDatagrams() bool
	Best() link.Class
	// Waiting reports whether connections of apps wait for a Session.
	Waiting() bool
	// Launch runs f as part of the Link, until the function that it gives is called or
	// the Link ends.
	Launch(f func(context.Context)) context.CancelFunc
	// DialDatagrams makes a Session over the socket's paths. DialDirect makes a Session
	// over a found stream, and Welcome accepts the Peer's Session over such a stream. Each
	// method hands the Session to the Link, and closes its argument on failure.
	DialDatagrams(ctx context.Context, boot string) error
	DialDirect(ctx context.Context, conn *punch.Conn, boot string) error
	Welcome(ctx context.Context, conn *punch.Conn) error
	// Ended reports the end of the search of an epoch. LossOnly: packet loss alone may
	// explain the missing direct TCP.
	Ended(epoch uint64, lossOnly bool)
}

// Config names the owner and the Peer of a [Finder].
type Config struct {
	Field *Field
	Owner Owner
	Peer  identity.ID
	Log   *slog.Logger
}

// Finder is the path search of one Link, for the Link's lifetime: its part of the shared
// socket, the state of its searches, and the relay that it keeps. [New] makes a Finder;
// all methods may be called concurrently.
type Finder struct {
	// Constant after New.
	field *Field
	owner Owner
	peer  identity.ID
	log   *slog.Logger
	path  *underlay.Link
	// dialing has an element while a Session over UDP is made.
	dialing chan struct{}

	mu     sync.Mutex // taken after the Link's, never before; guards all below
	closed bool
	begun  uint64 // searches that there have been
	timer  *time.Timer

	// searching: runSearches runs. next is its next search, nil for none; stop ends the
	// running search.
	searching   bool
	next        *wanted
	stop        context.CancelFunc
	gap         gap
	epoch       uint64              // of the search wanted last
	inbox       chan signal.Message // to that search, nil when it is over
	undelivered bool                // no mailbox has taken its offer yet
	// nudging: runNudges does; nudgeDue: one is to be sent, to nudgeBoot; nudgeControl:
	// the Link carries control connections.
	nudging, nudgeDue, nudgeControl bool
	nudgeBoot                       string
	nudged                          context.CancelFunc // ends the sending of one; nil while none is sent
	heard                           chan struct{}      // closed at the Peer's next message; nil without a waiter

	// redialing ends the making of the Session that no search makes, nil while there is
	// none.
	redialing context.CancelFunc
	// relay is the search that owns the relayed path that may be in use; nil for none.
	relay *relayOwner
	// up is closed and renewed whenever a datagram path has come up.
	up chan struct{}
}

// New makes a Link known to the shared socket.
func New(c Config) *Finder {
	return &Finder{
		field: c.Field, owner: c.Owner, peer: c.Peer, log: c.Log,
		path: c.Field.Socket.NewLink(c.Peer.Slot), dialing: make(chan struct{}, 1), up: make(chan struct{}),
	}
}

// Path is the Link's part of the shared socket.
func (f *Finder) Path() *underlay.Link { return f.path }

// Begun is how many searches there have been.
func (f *Finder) Begun() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun
}

// Undelivered reports that the last wanted search has not reached the Peer's mailbox.
func (f *Finder) Undelivered() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.undelivered
}

// Forget detaches the present paths and returns a function that releases them. Call the
// function once, after the Sessions have said farewell over these paths.
func (f *Finder) Forget() (forget func()) {
	f.StopRedial()
	f.mu.Lock()
	defer f.mu.Unlock()
	var searches []string
	for _, p := range f.path.Paths() {
		searches = append(searches, p.Search)
	}
	relay := f.relay
	f.relay = nil
	return func() {
		for _, s := range searches {
			f.path.Forget(s)
		}
		relay.close()
	}
}

// Close refuses further relays and returns a function that releases the socket. Call the
// function once, after the Sessions have said farewell over it. Stop all searches before.
func (f *Finder) Close() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	relay := f.relay
	f.relay = nil
	return func() {
		f.path.Close()
		relay.close()
	}
}

// Came reports that a datagram path has come up or changed.
func (f *Finder) Came() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.up)
	f.up = make(chan struct{})
}

// Arm has f called after a while, unless Stop or Arm is called before.
func (f *Finder) Arm(after time.Duration, then func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(after, then)
}

// Stop ends the running search, a pending or armed search, and a Redial.
func (f *Finder) Stop() {
	f.StopRedial()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopLocked()
}

func (f *Finder) stopLocked() {
	f.next = nil
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
}

// Redial makes a Session with boot over a path that still works, if there is one,
// instead of the Redial before.
func (f *Finder) Redial(boot string) {
	f.StopRedial()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.redialing = f.owner.Launch(func(ctx context.Context) { f.redial(ctx, boot) })
}

// StopRedial ends the making of a Session with a Boot that is of the past.
func (f *Finder) StopRedial() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.redialing != nil {
		f.redialing()
		f.redialing = nil
	}
}

// inboxLen bounds the messages of one search that wait to be read.
const inboxLen = 16

// Hear notes that a message of the Peer's has come: it is at its mailbox.
func (f *Finder) Hear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.heard != nil {
		close(f.heard)
		f.heard = nil
	}
}

// Take gives a message of the Peer's to the search of its epoch. Its sender is
// authenticated and admitted; a message of another search is of the past.
func (f *Finder) Take(m signal.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch != m.Epoch {
		return
	}
	select {
	case f.inbox <- m:
	default: // more than an honest Peer sends
	}
}

// relayOwner is a search that has found a relayed path: it owns the allocation.
type relayOwner struct {
	*ice.Search
	name  string
	begun time.Time
}

func (r *relayOwner) close() {
	if r != nil {
		_ = r.Close()
	}
}

// relayLife is how long an allocation stays although a newer one is there: less
// than its credentials are good for.
const relayLife = 4 * time.Minute

// keepRelay takes charge of the search behind a relayed path. An older one makes
// way, unless it carries traffic and is young: nothing is gained by moving then.
func (f *Finder) keepRelay(next *relayOwner) {
	f.mu.Lock()
	drop := f.relay
	switch {
	case f.closed, drop != nil && time.Since(drop.begun) < relayLife && f.carries(drop.name):
		drop = next
	default:
		f.relay = next
	}
	f.mu.Unlock()
	if drop != nil {
		f.owner.Launch(func(context.Context) { drop.close() })
	}
}

// carries reports whether either end uses a working relayed path of a search.
func (f *Finder) carries(search string) bool {
	for _, p := range f.path.Paths() {
		if p.Search == search && p.Kind == underlay.Relay && p.State == pathstate.Up && (p.InUse || p.PeerUses) {
			return true
		}
	}
	return false
}

// jitter spreads the work of many Links; its secrecy does not matter.
func jitter() float64 {
	return rand.Float64() //nolint:gosec // spreads load, is no secret
}
