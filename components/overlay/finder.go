// The finder is what a Link has for paths while it lives: its part of the shared socket,
// the state of its searches, the relay that it keeps. A search (search.go) is one run of
// looking; searcher.go decides when one may.

package overlay

import (
	"context"
	"maps"
	"slices"
	"time"

	"cadre.dev/overlay/internal/ice"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/signal"
	"cadre.dev/overlay/internal/underlay"
	pathstate "cadre.dev/overlay/internal/underlay/paths"
)

// finder is what a Link has for looking for paths. Its fields are guarded by the
// Link's lock, but for dialing; path never changes.
type finder struct {
	path *underlay.Link // nil where the node finds none
	// class is what the datagram path in use is worth.
	class link.Class
	begun uint64 // searches that there have been
	// base is what this Link's epochs begin after; it never changes.
	base  uint64
	timer *time.Timer

	// searching: runSearches does; next is what it runs next, nil for nothing, and
	// stop ends what it runs now.
	searching bool
	next      *wanted
	stop      context.CancelFunc
	gap       gap
	epoch     uint64              // of the search wanted last
	inbox     chan signal.Message // to that search, nil when it is over
	unsaid    bool                // no mailbox has taken its offer yet
	// nudging: runNudges does; nudgeDue: one is to be sent, to nudgeBoot.
	nudging, nudgeDue bool
	nudgeBoot         string
	nudged            context.CancelFunc // ends the sending of one; nil while none is sent
	heard             chan struct{}      // closed at the Peer's next message, nil while nobody waits

	// dialing has an element, put without the Link's lock, while a Session over UDP is
	// made; redialing ends the one that no search makes, nil while there is none.
	dialing   chan struct{}
	redialing context.CancelFunc
	// relay is the search whose relayed path may be in use; nil for none.
	relay *relayOwner
	// up is closed and renewed whenever a datagram path has come up.
	up chan struct{}
}

// openPaths makes a Link known to the shared socket.
func (l *peerLink) openPaths() {
	l.finder.up, l.finder.dialing = make(chan struct{}), make(chan struct{}, 1)
	// The Peer remembers the epochs of our Boot longer than we do, who may leave its
	// map and come back, or start again with the same key. Clocks go on, mostly.
	l.finder.base = epochBase(time.Now(), l.node.epoch.Load())
	if l.node.paths == nil {
		return
	}
	l.finder.path = l.node.paths.socket.NewLink(l.id.Slot)
	l.finder.path.Follow(l.pathEvent)
}

// epochBase is what the epochs of a Link begin after: the clock, or highest, the highest
// of any Link that is gone, when the clock was set back.
func epochBase(now time.Time, highest uint64) uint64 {
	return max(uint64(max(now.UnixMicro(), 0)), highest)
}

// facts are the node's about the Peer, and what is this Link's own.
func (l *peerLink) facts(p Peer) link.Facts {
	f := l.node.facts(p)
	f.Epoch = l.finder.base
	return f
}

// forgetPathsLocked lets go of the paths to a Boot that is not the Peer's any more, once
// its Sessions have said farewell over them. Its machine may still run and answer
// probes: kept paths would lead the next Boot's packets to it (OVL-15).
func (l *peerLink) forgetPathsLocked() {
	if l.finder.path == nil {
		return
	}
	l.stopRedialLocked()
	var searches []string
	for _, p := range l.finder.path.Paths() {
		searches = append(searches, p.Search)
	}
	relay := l.finder.relay
	l.finder.relay, l.finder.class = nil, link.NoClass
	sessions := slices.Collect(maps.Values(l.sessions))
	l.wg.Go(func() {
		for _, s := range sessions {
			if s.path.carrier == carrierQUIC {
				s.Wait()
			}
		}
		for _, a := range searches {
			l.finder.path.Forget(a)
		}
		if relay != nil {
			_ = relay.Close()
		}
	})
}

// closePaths lets go of the socket once the Sessions have said farewell over it: the
// Peer would wait for its dead-man timer else.
func (l *peerLink) closePaths() {
	if l.finder.path == nil {
		return
	}
	l.mu.Lock()
	relay := l.finder.relay
	l.finder.relay = nil
	sessions := slices.Collect(maps.Values(l.sessions))
	l.mu.Unlock()
	l.node.wg.Go(func() {
		for _, s := range sessions {
			if s.path.carrier == carrierQUIC {
				s.Wait()
			}
		}
		l.finder.path.Close()
		if relay != nil {
			_ = relay.Close()
		}
	})
}

// pathEvent tells the machine what happens to the datagram paths.
func (l *peerLink) pathEvent(ev underlay.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch ev.Kind {
	case underlay.PathUp, underlay.PathChanged:
		l.finder.class = l.node.classOf(ev.Path)
		for number, s := range l.sessions {
			if s.path.carrier == carrierQUIC {
				// One under suspicion stays so until it answers: it may have been found by the
				// successor of the process that the Session was made with.
				l.stepLocked(link.Moved{Session: number, Class: l.finder.class})
			}
		}
		close(l.finder.up)
		l.finder.up = make(chan struct{})
		l.log.Debug("datagram path", "event", string(ev.Kind), "remote", ev.Path.Remote, "reason", ev.Reason)
	case underlay.PathQuiet, underlay.PathsGone:
		l.log.Info("datagram path is quiet", "event", string(ev.Kind), "remote", ev.Path.Remote, "reason", ev.Reason)
		if ev.Kind == underlay.PathsGone {
			// The Session waits for a path, with the connections on it; new ones need not.
			for _, s := range l.sessions {
				if s.path.carrier == carrierQUIC {
					l.node.launch(&l.wg, func(ctx context.Context) { l.suspect(ctx, s, "session has no path") })
				}
			}
		}
		l.stepLocked(link.Quiet{})
	}
}

// classOf ranks a datagram path. One that turned up at a rendezvous server's address is
// relayed, whatever else is known about it: the Peer's relay may speak before the
// message that names it has come.
func (n *Node) classOf(p underlay.PathInfo) link.Class {
	if p.Kind == underlay.Relay {
		return link.Relay
	}
	if n.paths.box.Offers(p.Remote.Addr()) {
		return link.Relay
	}
	return link.DirectUDP
}

// datagramClass is what a Session over UDP is worth now.
func (l *peerLink) datagramClass() link.Class {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finder.class == link.NoClass {
		return link.DirectUDP
	}
	return l.finder.class
}

// candidates describes the validated datagram paths.
func (l *peerLink) candidates() []Candidate {
	if l.finder.path == nil {
		return nil
	}
	var out []Candidate
	for _, p := range l.finder.path.Paths() {
		if p.State != pathstate.Up {
			continue
		}
		out = append(out, Candidate{
			Kind: pathKind(l.node.classOf(p)), Remote: p.Remote.String(), RTT: p.RTT, Loss: p.Loss, InUse: p.InUse,
		})
	}
	return out
}

// doFindLocked carries out what concerns the search for paths.
func (l *peerLink) doFindLocked(e link.Effect) {
	f := &l.finder
	switch e := e.(type) {
	case link.StopFind:
		l.stopRedialLocked()
		l.stopFindLocked()
	case link.ArmFind:
		f.timer = time.AfterFunc(e.After, func() { l.step(link.FindTimer{Number: e.Number}) })
	case link.Nudge:
		l.nudgeLocked(l.peer.BootID)
	case link.Redial:
		l.stopRedialLocked()
		f.redialing = l.node.launch(&l.wg, func(ctx context.Context) { l.redial(ctx, e.Boot) })
	case link.Find:
		l.wantLocked(e)
	}
}

// stopFindLocked ends the running search, and what is wanted or armed.
func (l *peerLink) stopFindLocked() {
	f := &l.finder
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

// stopRedialLocked ends the making of a Session with a Boot that is of the past.
func (l *peerLink) stopRedialLocked() {
	if l.finder.redialing != nil {
		l.finder.redialing()
		l.finder.redialing = nil
	}
}

// inboxLen bounds the messages of one search that wait to be read.
const inboxLen = 16

// signaled takes a message from the Peer's mailbox. Its sender is authenticated and
// admitted; a message of a search that is not the running one is of the past.
func (l *peerLink) signaled(who identity.Verified, m signal.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finder.heard != nil {
		close(l.finder.heard)
		l.finder.heard = nil
	}
	switch m.Type {
	case signal.Nudge:
		l.stepLocked(link.Nudged{Boot: who.BootID, Unsaid: l.finder.unsaid})
		return
	case signal.Offer:
		l.stepLocked(link.Offered{Epoch: m.Epoch, Boot: who.BootID})
	case signal.Answer, signal.Candidates, signal.Bye:
	}
	if running, epoch := l.state.Finding(); !running || epoch != m.Epoch || l.finder.epoch != m.Epoch {
		return
	}
	select {
	case l.finder.inbox <- m:
	default: // more than an honest Peer sends
	}
}

// relayOwner is a search that has found a relayed path: it owns the allocation.
type relayOwner struct {
	*ice.Search
	name  string
	begun time.Time
}

// relayLife is how long an allocation stays although a newer one is there: less
// than its credentials are good for.
const relayLife = 4 * time.Minute

// keepRelay takes charge of the search behind a relayed path. An older one makes
// way, unless it carries traffic and is young: nothing is gained by moving then.
func (l *peerLink) keepRelay(next *relayOwner) {
	l.mu.Lock()
	drop := l.finder.relay
	switch {
	case l.stopped, drop != nil && time.Since(drop.begun) < relayLife && l.carries(drop.name):
		drop = next
	default:
		l.finder.relay = next
	}
	if drop != nil {
		l.wg.Go(func() { _ = drop.Close() })
	}
	l.mu.Unlock()
}

// carries tells whether a working relayed path of a search is in use at either end.
func (l *peerLink) carries(search string) bool {
	for _, p := range l.finder.path.Paths() {
		if p.Search == search && p.Kind == underlay.Relay && p.State == pathstate.Up && (p.InUse || p.PeerUses) {
			return true
		}
	}
	return false
}
