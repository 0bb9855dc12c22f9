// Sessions on demand: when a Link may rest, and how both sides agree that it does.

package peer

import (
	"context"
	"errors"
	"slices"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/link"
)

const (
	// giveUpTime bounds the search for a Session after the last waiting connection has gone.
	giveUpTime = 30 * time.Second
	// restTime bounds the Peer's answer to a proposal of rest, and the wait of a side that
	// has agreed for the other to end the Sessions.
	restTime = 10 * time.Second
	// reasonIdle is why a Link that rests has no path.
	reasonIdle = "the link is unused"
)

// alarm is a timer that counts while the core has it.
type alarm struct{ timer *time.Timer }

// checkIdleAfter has the Link looked at after a while.
func (c *core) checkIdleAfter(after time.Duration) {
	a := &alarm{}
	c.idle = a
	a.timer = time.AfterFunc(after, func() {
		c.loop.post(func(c *core) {
			if c.idle == a {
				c.checkIdle()
			}
		})
	})
}

// watchIdle looks at an awake Link on demand after a while.
func (c *core) watchIdle() {
	watched := c.state.Facts().OnDemand && c.state.Awake() && !c.state.Asking() && !c.over()
	switch {
	case !watched && c.idle != nil:
		c.idle.timer.Stop()
		c.idle = nil
	case watched && c.idle == nil:
		c.checkIdleAfter(c.idleTime())
	}
}

// idleTime is how long the Link may be unused.
func (c *core) idleTime() time.Duration {
	if !c.inUse() {
		return min(giveUpTime, c.node.IdleTime)
	}
	return c.node.IdleTime
}

// inUse reports whether a Session carries the Link.
func (c *core) inUse() bool {
	used, _ := c.state.InUse()
	return used != 0
}

// checkIdle lets an unused Link rest.
func (c *core) checkIdle() {
	if c.idle != nil {
		c.idle.timer.Stop()
	}
	c.idle, c.due = nil, false
	defer c.watchIdle()
	if c.over() || !c.state.Facts().OnDemand || !c.state.Awake() {
		return
	}
	if used, left := c.inUse(), giveUpTime-c.forward.Idle(); c.state.Dialing() && (used || left > 0) {
		// The Peer may already use a Session that is being made, and would lose it. The end
		// of the dial is the next chance: behind an unresponsive gateway one dial follows
		// another, with short pauses.
		c.due = true
		if !used {
			c.checkIdleAfter(left)
		}
		return
	}
	limit := c.idleTime()
	if left := limit - c.forward.Idle(); left > 0 {
		c.checkIdleAfter(left)
		return
	}
	if c.forward.Rest(limit) {
		c.step(link.Idle{})
	}
}

// Making reports that a Session is being made over a found path, until made is called.
func (p *Peer) Making() (made func()) {
	add := func(more int) { p.loop.ask(func(c *core) { c.step(link.Making{More: more}) }) }
	add(1)
	return func() { add(-1) }
}

// dialed looks again whether the Link may rest, if that waited for the end of a dial.
func (c *core) dialed() {
	if c.due && !c.state.Dialing() {
		c.loop.post((*core).checkIdle)
	}
}

// propose asks the Peer whether the Link may rest.
func (p *Peer) propose(s *live, question uint64, ending []frame.SessionTag) {
	err := p.askRest(s, ending)
	refused := errors.Is(err, forward.ErrRefused)
	p.loop.ask(func(c *core) {
		c.question.over()
		c.question = nil
		p.log.Debug("link is unused", "peer_agrees", err == nil, "error", err)
		if err == nil || refused {
			c.step(link.Rested{Question: question, Agreed: err == nil})
		} else {
			c.step(link.Unanswered{Question: question})
		}
		if !c.state.Awake() {
			c.note(link.KindNone, reasonIdle, "")
		}
		// A caller that came while the Peer was asked has found no Session.
		if p.forward.Wants() {
			c.step(link.Wanted{})
		}
	})
}

// question is a proposal of rest without an answer.
type question struct {
	st    carrier.Stream
	limit time.Duration // of the answer, while a caller waits for it
	hurry *time.Timer   // nil without a waiting caller
}

// hurryUp shortens the time for the Peer's answer, since a local caller waits for a Session:
// a reachable Peer answers within a round trip. Only the loop calls it.
func (q *question) hurryUp() {
	if q.hurry == nil {
		q.hurry = time.AfterFunc(q.limit, q.st.Reset)
	}
}

// over is the end of a question; nil was not asked. The loop's.
func (q *question) over() {
	if q != nil && q.hurry != nil {
		q.hurry.Stop()
	}
}

func (p *Peer) askRest(s *live, ending []frame.SessionTag) error {
	st, err := s.OpenStream()
	if err != nil {
		return err
	}
	q := &question{st: st, limit: p.node.HurryTime}
	p.loop.ask(func(c *core) {
		c.question = q
		if p.forward.Wants() { // of the question before, it may be
			q.hurryUp()
		}
	})
	defer st.Reset()
	_ = st.SetDeadline(time.Now().Add(restTime))
	if _, err := st.Write(frame.AppendRest(frame.Header{Kind: frame.KindRest}.Append(nil), ending)); err != nil {
		return err
	}
	if err := st.CloseWrite(); err != nil {
		return err
	}
	return forward.ReadReply(st)
}

// serveRest answers the Peer's proposal. To agree is a promise: from then on this side
// opens no stream on the Sessions that there are.
func (p *Peer) serveRest(s *live, st carrier.Stream) {
	_ = st.SetReadDeadline(time.Now().Add(headerTime))
	ending, err := frame.ReadRest(st)
	if err != nil {
		p.node.Counters.InvalidFrames.Add(1)
		forward.Refuse(st, frame.FrameInvalid)
		return
	}
	code := frame.Overloaded
	p.loop.ask(func(c *core) {
		switch {
		case s.yielded: // asked again, since the answer was not heard
			code = frame.Accepted
		case c.agreesToRest(s, ending):
			code = frame.Accepted
			c.step(link.Asked{})
		}
	})
	forward.Refuse(st, code)
}

// agreesToRest takes the Sessions out of use if this side has no use for them.
func (c *core) agreesToRest(over *live, ending []frame.SessionTag) bool {
	if len(ending) == 0 { // a Peer of a version that named none
		ending = []frame.SessionTag{over.Tag}
	}
	// Half of the idle time suffices: the two clocks began at about the same time, and this
	// side's latest data may still be on its way.
	half := c.node.IdleTime / 2
	return !c.over() && c.state.Facts().OnDemand && !c.state.Dialing() && c.holdsJust(ending) && c.forward.Rest(half)
}

// holdsJust reports whether the Link holds exactly these Sessions. If this side holds another
// Session, a Peer that asked before it had that Session may use it. If this side has still to
// receive a Session, this side would use it on arrival.
func (c *core) holdsJust(ending []frame.SessionTag) bool {
	held := 0
	for number, s := range c.sessions {
		if c.state.Class(number) == link.NoClass {
			continue
		}
		held++
		if !slices.Contains(ending, s.Tag) {
			return false
		}
	}
	return held == len(ending)
}

// ending are the Sessions that the Peer is asked to let go of.
func (c *core) ending() []frame.SessionTag {
	var tags []frame.SessionTag
	for number, s := range c.sessions {
		if c.state.Leaving(number) {
			tags = append(tags, s.Tag)
		}
	}
	return tags
}

// yield ends a Session that the Peer does not end.
func yield(ctx context.Context, s *live) {
	limit := time.NewTimer(restTime)
	defer limit.Stop()
	select {
	case <-limit.C:
		s.Close(link.ErrIdle)
	case <-s.Done():
	case <-ctx.Done():
	}
}

// Await waits a while for a Session on a Link that rests.
func (p *Peer) Await(ctx context.Context) {
	onDemand := false
	p.loop.ask(func(c *core) { onDemand = c.state.Facts().OnDemand })
	if !onDemand {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.node.DemandTime)
	defer cancel()
	_ = p.forward.Await(ctx) // the dial reports an error if there is no Session
}
