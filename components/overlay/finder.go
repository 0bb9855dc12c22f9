package overlay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pion/stun/v2"

	"cadre.dev/overlay/internal/attempt"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/signal"
	"cadre.dev/overlay/internal/underlay"
	pathstate "cadre.dev/overlay/internal/underlay/paths"
)

// sendLimit bounds one message to a mailbox.
const sendLimit = 5 * time.Second

// finder is what a Link has for looking for paths. Its fields are guarded by the
// Link's lock; path never changes.
type finder struct {
	path *underlay.Link // nil where the node finds none
	// class is what the datagram path in use is worth.
	class link.Class
	begun uint64 // searches there have been
	// base is what this Link's epochs begin after; it never changes.
	base  uint64
	stop  context.CancelFunc // ends the running search; nil when there is none
	timer *time.Timer
	epoch uint64              // of the running search
	inbox chan signal.Message // to the running search
	// relay is the attempt whose relayed path may be in use; nil for none.
	relay *relayOwner
	// up is closed and renewed whenever a datagram path has come up.
	up chan struct{}
}

// openPaths makes a Link known to the shared socket.
func (l *peerLink) openPaths() {
	l.finder.up = make(chan struct{})
	// The Peer remembers the epochs of our Boot longer than we do, who may leave its
	// map and come back, or start again with the same key. Clocks go on, mostly.
	l.finder.base = max(uint64(time.Now().UnixMicro()), l.node.epoch.Load())
	if l.node.paths == nil {
		return
	}
	l.finder.path = l.node.paths.socket.NewLink(l.id.Slot)
	l.node.launch(&l.wg, l.followPaths)
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
	var attempts []string
	for _, p := range l.finder.path.Paths() {
		attempts = append(attempts, p.Attempt)
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
		for _, a := range attempts {
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

// followPaths tells the machine what happens to the datagram paths.
func (l *peerLink) followPaths(ctx context.Context) {
	for {
		select {
		case ev, ok := <-l.finder.path.Events():
			if !ok {
				return
			}
			l.pathEvent(ev)
		case <-ctx.Done():
			return
		}
	}
}

func (l *peerLink) pathEvent(ev underlay.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch ev.Kind {
	case underlay.PathUp, underlay.PathChanged:
		l.finder.class = l.node.classOf(ev.Path)
		for number, s := range l.sessions {
			if s.path.carrier == carrierQUIC {
				l.stepLocked(link.Moved{Session: number, Class: l.finder.class})
				l.stepLocked(link.Suspected{Session: number, Suspect: false})
			}
		}
		close(l.finder.up)
		l.finder.up = make(chan struct{})
		l.log.Debug("datagram path", "event", string(ev.Kind), "remote", ev.Path.Remote, "reason", ev.Reason)
	case underlay.PathQuiet, underlay.PathsGone:
		l.log.Info("datagram path is quiet", "event", string(ev.Kind), "remote", ev.Path.Remote, "reason", ev.Reason)
		if ev.Kind == underlay.PathsGone {
			// The Session waits for a path, with the connections on it; new ones need not.
			for number, s := range l.sessions {
				if s.path.carrier == carrierQUIC {
					l.stepLocked(link.Suspected{Session: number, Suspect: true})
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
	for _, s := range n.paths.box.ICEServers() {
		if u, err := stun.ParseURI(s.URL); err == nil && u.Host == p.Remote.Addr().String() {
			return link.Relay
		}
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
		l.stopFindLocked()
	case link.ArmFind:
		f.timer = time.AfterFunc(e.After, func() { l.step(link.FindTimer{Number: e.Number}) })
	case link.Nudge:
		boot := l.peer.BootID
		l.node.launch(&l.wg, func(ctx context.Context) { l.nudge(ctx, boot) })
	case link.Find:
		l.stopFindLocked()
		f.begun++
		f.epoch, f.inbox = e.Epoch, make(chan signal.Message, inboxLen)
		inbox := f.inbox
		f.stop = l.node.launch(&l.wg, func(ctx context.Context) {
			err := l.search(ctx, e, inbox)
			if err != nil && ctx.Err() == nil {
				l.log.Info("search for paths ended", "attempt", e.Epoch, "error", err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if f.inbox == inbox {
				f.inbox = nil // an idle Link holds none
			}
			l.stepLocked(link.FindEnded{Epoch: e.Epoch, Jitter: jitter()})
		})
	}
}

func (l *peerLink) stopFindLocked() {
	f := &l.finder
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
}

// nudge asks the Peer for an attempt. The Peer may not be at its mailbox yet: it
// begins by itself when it is, so a nudge that is lost costs little.
func (l *peerLink) nudge(ctx context.Context, boot string) {
	if err := l.trySend(ctx, boot, signal.Message{Type: signal.Nudge}); err != nil && ctx.Err() == nil {
		l.log.Debug("nudge not sent", "error", err)
	}
}

// trySend sends again until the mailbox takes the message or the time is up: the
// Peer or the rendezvous may come a moment later than we do.
func (l *peerLink) trySend(ctx context.Context, boot string, m signal.Message) error {
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	tick := time.NewTicker(sendAgain)
	defer tick.Stop()
	for {
		err := l.send(ctx, boot, m)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

const (
	// sendAgain is the pause before a message is sent again that no mailbox took.
	sendAgain = 250 * time.Millisecond
	// inboxLen bounds the messages of one attempt that wait to be read.
	inboxLen = 16
)

// signaled takes a message from the Peer's mailbox. Its sender is authenticated and
// admitted; a message of an attempt that is not the running one is of the past.
func (l *peerLink) signaled(who identity.Verified, m signal.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m.Type {
	case signal.Nudge:
		l.stepLocked(link.Nudged{Boot: who.BootID})
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

// relayOwner is an attempt that has found a relayed path: it owns the allocation.
type relayOwner struct {
	*attempt.Attempt
	name  string
	begun time.Time
}

// relayLife is how long an allocation stays although a newer one is there: less
// than its credentials are good for.
const relayLife = 4 * time.Minute

// keepRelay takes charge of the attempt behind a relayed path. An older one makes
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

// carries tells whether a working relayed path of an attempt is in use at either end.
func (l *peerLink) carries(attempt string) bool {
	for _, p := range l.finder.path.Paths() {
		if p.Attempt == attempt && p.Kind == underlay.Relay && p.State == pathstate.Up && (p.InUse || p.PeerUses) {
			return true
		}
	}
	return false
}
