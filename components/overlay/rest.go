// Sessions on demand: when a Link may rest, and how both sides agree that it does.

package overlay

import (
	"context"
	"errors"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/link"
)

const (
	// WarmGroup is how many members the node's own group may have, itself among them,
	// for their Sessions to be kept although [Config.OnDemand] is set.
	WarmGroup = 16
	// idleTime is how long a Link on demand may be unused before its Sessions end, where
	// the Config does not say.
	idleTime = 5 * time.Minute
	// giveUpTime is how long a Session is looked for that nobody waits for any more.
	giveUpTime = 30 * time.Second
	// restTime bounds the Peer's answer to a proposal of rest, and the wait of a side that
	// has agreed for the other to end the Sessions.
	restTime = 10 * time.Second
)

// onDemand tells whether a Session with p is made only when somebody wants one. small
// tells that the node's own group is.
func (n *Node) onDemand(p Peer, small bool) bool {
	return n.cfg.OnDemand && !n.coordinator() && !p.Coordinator && (!small || p.ID.Group != n.cfg.Self.Group)
}

// smallGroup tells whether the node's own group is small enough to be kept together.
func (n *Node) smallGroup(peers map[ID]Peer) bool {
	members := 1
	for id := range peers {
		if id.Group == n.cfg.Self.Group {
			members++
		}
	}
	return members <= WarmGroup
}

// watchIdleLocked looks at an awake Link on demand after a while.
func (l *peerLink) watchIdleLocked() {
	watched := l.state.Facts().OnDemand && l.state.Awake() && !l.state.Asking() && !l.stopped
	switch {
	case !watched && l.idle != nil:
		l.idle.Stop()
		l.idle = nil
	case watched && l.idle == nil:
		l.idle = time.AfterFunc(l.idleTimeLocked(), l.checkIdle)
	}
}

// idleTimeLocked is how long the Link may be unused.
func (l *peerLink) idleTimeLocked() time.Duration {
	if used, _ := l.state.InUse(); used == 0 {
		return min(giveUpTime, l.node.cfg.IdleTime)
	}
	return l.node.cfg.IdleTime
}

// checkIdle lets a Link rest that nobody has used.
func (l *peerLink) checkIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = nil
	defer l.watchIdleLocked()
	if l.stopped || !l.state.Facts().OnDemand || !l.state.Awake() {
		return
	}
	limit := l.idleTimeLocked()
	if left := limit - l.forward.Idle(); left > 0 {
		l.idle = time.AfterFunc(left, l.checkIdle)
		return
	}
	if l.forward.Rest(limit) {
		l.stepLocked(link.Idle{})
	}
}

// propose asks the Peer whether the Link may rest.
func (l *peerLink) propose(s live, question uint64) {
	err := askRest(s)
	// A Peer that does not answer may have agreed, and uses no Session any more.
	agreed := !errors.Is(err, forward.ErrRefused)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.Debug("nobody uses the link", "peer_agrees", agreed)
	l.stepLocked(link.Rested{Question: question, Agreed: agreed})
	if !l.state.Awake() {
		l.noteLocked(PathNone, reasonIdle, "")
	}
	// Whoever came while the Peer was asked has found no Session.
	if l.forward.Waiting() > 0 {
		l.stepLocked(link.Wanted{})
	}
}

func askRest(s live) error {
	st, err := s.OpenStream()
	if err != nil {
		return err
	}
	defer st.Reset()
	_ = st.SetDeadline(time.Now().Add(restTime))
	if _, err := st.Write(frame.Header{Kind: frame.KindRest}.Append(nil)); err != nil {
		return err
	}
	if err := st.CloseWrite(); err != nil {
		return err
	}
	return forward.ReadReply(st)
}

// serveRest answers the Peer's proposal. To agree is a promise: from then on this side
// opens no stream on the Sessions that there are.
func (l *peerLink) serveRest(s live, st carrier.Stream) {
	code := frame.Overloaded
	l.mu.Lock()
	// Half as long: the two clocks began at about the same time, and what this side has
	// carried a moment ago may still be on its way.
	half := l.node.cfg.IdleTime / 2
	if !l.stopped && l.state.Facts().OnDemand && l.askedOfAllLocked(s, min(restTime, half)) && l.forward.Rest(half) {
		code = frame.Accepted
		l.stepLocked(link.Asked{})
	}
	l.mu.Unlock()
	forward.Refuse(st, code)
}

// askedOfAllLocked tells whether a proposal that came over s means every Session that
// there is. One that was made after it was sent is not meant: the Peer may use that.
func (l *peerLink) askedOfAllLocked(s live, young time.Duration) bool {
	if l.state.Class(s.number) == link.NoClass {
		return false
	}
	for number, other := range l.sessions {
		if number != s.number && l.state.Class(number) != link.NoClass && time.Since(other.begun) < young {
			return false
		}
	}
	return true
}

// yield ends a Session that the Peer does not end.
func (l *peerLink) yield(ctx context.Context, s live) {
	limit := time.NewTimer(restTime)
	defer limit.Stop()
	select {
	case <-limit.C:
		s.Close(link.ErrIdle)
	case <-s.Done():
	case <-ctx.Done():
	}
}

// awaitSession waits for a Session on a Link that rests.
func (l *peerLink) awaitSession(ctx context.Context) {
	l.mu.Lock()
	onDemand := l.state.Facts().OnDemand
	l.mu.Unlock()
	if !onDemand {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.node.limits.demandTime)
	defer cancel()
	_ = l.forward.Await(ctx) // who finds none says so
}

// reasonIdle is why a Link that rests has no path.
const reasonIdle = "nobody uses the link"
