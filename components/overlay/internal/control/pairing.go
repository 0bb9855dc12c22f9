package control

import (
	"context"
	"net"
	"sync"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/session"
)

// Pairing collects the control connections of one Session. Make it with
// [Channel.Pairing]; safe for concurrent use.
type Pairing struct {
	channel *Channel
	session *session.Session

	mu            sync.Mutex
	first, second net.Conn
}

// Pairing begins to collect the control streams that the Peer opens on a Session.
func (c *Channel) Pairing(s *session.Session) *Pairing { return &Pairing{channel: c, session: s} }

// Serve takes a stream that the Peer opened as one connection of a pair. run runs the
// pair; it is nil while the pair is incomplete. A stream too many ends the Session.
func (p *Pairing) Serve(kind frame.Kind, st carrier.Stream) (run func(context.Context)) {
	conns, complete, err := p.add(kind, p.channel.conn(p.session, st))
	if err != nil {
		p.session.Close(err)
		return nil
	}
	if !complete {
		return nil
	}
	return func(ctx context.Context) { p.channel.run(ctx, p.session, conns) }
}

// add takes one connection and reports whether the pair is complete now. A pair that is
// complete makes room for the next: control may leave a Session and come back.
func (p *Pairing) add(kind frame.Kind, conn net.Conn) (Conns, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	place := &p.first
	if kind == frame.KindControl2 {
		place = &p.second
	}
	if *place != nil {
		return Conns{}, false, errTwice
	}
	*place = conn
	if p.first == nil || p.second == nil {
		return Conns{}, false, nil
	}
	conns := Conns{Dialer: p.session.Dialer, First: p.first, Second: p.second}
	p.first, p.second = nil, nil
	return conns, true, nil
}
