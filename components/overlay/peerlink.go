package overlay

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
)

// live is a Session and who is at its other end.
type live struct {
	carrier.Session
	who    identity.Verified
	number uint64
	dialer bool
}

// peerLink runs the Link to one Peer: it feeds what happens to link.State and
// does what that says. Its lock is taken after the Node's, never before.
type peerLink struct {
	node    *Node
	id      ID
	log     *slog.Logger
	forward *forward.Peer

	mu       sync.Mutex
	peer     Peer
	state    link.State
	since    time.Time
	sessions map[uint64]live // every Session not over yet
	inUse    uint64          // the one streams are opened on, 0 for none
	lastErr  error
	abandon  context.CancelFunc // ends the running attempt; nil when there is none
	timer    *time.Timer
	stopped  bool
	wg       sync.WaitGroup // goroutines of the link and its sessions
}

// facts are what the link machine wants to know of a map entry.
func (n *Node) facts(p Peer) link.Facts {
	return link.Facts{Dials: n.dials(p), Boot: p.BootID, AnyBoot: p.Coordinator, Instance: p.InstanceID}
}

// startLink begins the Link to p, with the Node's lock held.
func (n *Node) startLink(p Peer) *peerLink {
	log := n.log.With("peer", p.ID.Slot)
	l := &peerLink{
		node: n, id: p.ID, log: log, peer: p,
		forward:  forward.NewPeer(forward.Config{SelfVIP: n.cfg.SelfVIP, Log: log}, forwardRules(p)),
		sessions: make(map[uint64]live),
	}
	l.step(link.Changed{Facts: n.facts(p)})
	return l
}

// update brings a new map entry.
func (l *peerLink) update(p Peer) {
	l.mu.Lock()
	l.peer = p
	l.mu.Unlock()
	l.forward.Update(forwardRules(p))
	l.step(link.Changed{Facts: l.node.facts(p)})
}

// stop ends the Link: at once for the network, and in the background for what
// has to be waited for.
func (l *peerLink) stop(reason error) {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return
	}
	l.stopped = true
	l.doLocked(link.Cancel{})
	for _, s := range l.sessions {
		l.wg.Go(func() { s.Close(reason) })
	}
	l.mu.Unlock()
	l.forward.Stop()
	l.node.wg.Go(func() {
		l.forward.Wait()
		l.wg.Wait()
	})
}

// step feeds one event to the machine and carries out what it says.
func (l *peerLink) step(ev link.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stepLocked(ev)
}

func (l *peerLink) stepLocked(ev link.Event) {
	if l.stopped {
		return
	}
	before := l.state.Phase
	var effects []link.Effect
	l.state, effects = l.state.Step(ev)
	for _, e := range effects {
		l.doLocked(e)
	}
	if l.state.Phase != link.Up && l.inUse != 0 {
		l.inUse = 0
		l.forward.Use(nil)
	}
	if l.state.Phase != before {
		l.since = time.Now()
	}
}

func (l *peerLink) doLocked(e link.Effect) {
	switch e := e.(type) {
	case link.Cancel:
		if l.abandon != nil {
			l.abandon()
			l.abandon = nil
		}
		if l.timer != nil {
			l.timer.Stop()
			l.timer = nil
		}
	case link.Dial:
		l.abandon = l.node.launch(&l.wg, func(ctx context.Context) { l.attempt(ctx, e) })
	case link.Arm:
		l.timer = time.AfterFunc(e.After, func() { l.step(link.Timer{Attempt: e.Attempt}) })
	case link.Use:
		s := l.sessions[e.Session]
		l.inUse = e.Session
		l.lastErr = nil
		l.forward.Use(s.Session)
		l.log.Info("session up", "boot", s.who.BootID, "dialer", s.dialer)
	case link.Close:
		s := l.sessions[e.Session]
		l.lastErr = e.Reason
		l.wg.Go(func() { s.Close(e.Reason) })
	}
}

// attempt dials once.
func (l *peerLink) attempt(ctx context.Context, d link.Dial) {
	s, err := l.node.dial(ctx, l.id, d.Instance, d.Boot)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if ctx.Err() == nil {
			if l.lastErr == nil || l.lastErr.Error() != err.Error() {
				l.log.Info("session not made", "error", err)
			}
			l.lastErr = err
		}
		l.stepLocked(link.Failed{Attempt: d.Attempt, Jitter: jitter()})
		return
	}
	if !l.connected(s, d.Attempt) {
		s.Close(errStopped)
		s.Wait()
	}
}

var errStopped = errors.New("link stopped")

// jitter spreads the attempts of many links; nothing rests on its being secret.
func jitter() float64 {
	return rand.Float64() //nolint:gosec // spreads load, is no secret
}

// connected takes charge of a Session; false when the Link is over.
func (l *peerLink) connected(s live, attempt uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	l.sessions[s.number] = s
	begin := time.Now()
	l.stepLocked(link.Connected{Session: s.number, Boot: s.who.BootID, Attempt: attempt})
	if l.inUse == s.number {
		peer := l.peer
		l.node.launch(&l.wg, func(ctx context.Context) { l.serve(ctx, s, peer) })
	}
	l.wg.Go(func() {
		// The next attempt does not wait for what this Session leaves behind.
		<-s.Done()
		l.over(s, time.Since(begin))
		s.Wait()
	})
	return true
}

// over takes note that a Session has ended.
func (l *peerLink) over(s live, lived time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, s.number)
	if l.inUse == s.number && !l.stopped {
		l.lastErr = s.Err()
		l.log.Info("session ended", "boot", s.who.BootID, "error", s.Err())
	}
	l.stepLocked(link.Lost{Session: s.number, Lived: lived, Jitter: jitter()})
}

// info describes the Link.
func (l *peerLink) info() SessionInfo {
	open := l.forward.Stats().Open
	l.mu.Lock()
	defer l.mu.Unlock()
	info := SessionInfo{Peer: l.id, State: SessionState(l.state.Phase), Since: l.since, Streams: open}
	if l.lastErr != nil {
		info.LastError = l.lastErr.Error()
	}
	if s, ok := l.sessions[l.inUse]; ok {
		st := s.Stats()
		info.BootID, info.RTT = s.who.BootID, st.RTT
		info.BytesIn, info.BytesOut = st.BytesIn, st.BytesOut
	}
	return info
}
