package peer

import (
	"context"

	"cadre.dev/overlay/internal/control"
	"cadre.dev/overlay/internal/session"
)

// onControl hands out a pair of control connections.
func (p *Peer) onControl(ctx context.Context, s *session.Session, conns control.Conns) {
	if entry, ok := p.admitted(s); ok {
		p.node.OnControl(ctx, entry, conns)
	}
}

// controlled is a Peer as its control connections see it.
type controlled Peer

var _ control.Link = (*controlled)(nil)

func (p *controlled) Begin(session uint64) (begins bool) {
	p.loop.ask(func(c *core) { begins = c.record.Begin(session) })
	return begins
}

func (p *controlled) Opened(session uint64) {
	p.loop.ask(func(c *core) { c.record.Opened(session) })
}

func (p *controlled) Take(t control.Taken) (taken bool) {
	p.loop.ask(func(c *core) {
		used, _ := c.state.InUse()
		if c.sessions[t.Session] == nil || c.over() || t.Dialer && used != t.Session {
			return
		}
		c.record.Take(t)
		taken = true
	})
	return taken
}

func (p *controlled) Drop(s *session.Session) {
	p.loop.ask(func(c *core) { c.record.Drop(s.Number) })
	(*Peer)(p).unused(s.Session)
}

func (p *controlled) Present(t control.Taken) (present bool) {
	p.loop.ask(func(c *core) { present = c.record.Present(t) })
	return present
}
