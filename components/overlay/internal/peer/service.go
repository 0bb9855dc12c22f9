// Services of the node's own: streams to a port that a node itself serves, and no workload
// of its machine.

package peer

import (
	"context"
	"errors"
	"net"
	"sync"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/peermap"
	"cadre.dev/overlay/internal/service"
	"cadre.dev/overlay/internal/session"
)

// ErrGone reports a Peer that has left the map.
var ErrGone = errors.New("peer is not in the map")

// DialService opens a connection to a port that the Peer serves itself, or that it lets
// this node reach, over the Session in use. Without a Session it waits for one until ctx
// ends; ctx bounds only the opening. It fails with [ErrGone], [forward.ErrRefused], or
// [measure.ErrNoSession] with ctx's cause.
func (p *Peer) DialService(ctx context.Context, port uint16) (net.Conn, error) {
	for {
		st, on, changed, err := p.forward.Open(ctx, frame.Header{Kind: frame.KindTCP, Port: port})
		if errors.Is(err, net.ErrClosed) {
			return nil, ErrGone
		}
		if err != nil {
			_, _, why := p.Used()
			return nil, errors.Join(context.Cause(ctx), why)
		}
		conn, err := p.opened(ctx, st, on, changed)
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, forward.ErrRefused), on.Err() == nil && !closedNow(changed):
			return nil, err
		}
		// The Session of the request ended or was left, before any answer on it.
	}
}

// opened waits for the Peer's answer to a stream and makes it a connection.
func (p *Peer) opened(ctx context.Context, st carrier.Stream, on carrier.Session, changed <-chan struct{}) (net.Conn, error) {
	var s *live
	p.loop.ask(func(c *core) { s = c.sessionOf(on) })
	if s == nil {
		st.Reset()
		p.forward.Release(on)
		return nil, carrier.ErrClosed
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-ctx.Done():
			st.Reset()
		case <-changed:
			st.Reset() // nothing may come over that Session any more
		case <-done:
		}
	})
	err := forward.ReadReply(st)
	close(done)
	wg.Wait()
	if err != nil {
		st.Reset()
		p.forward.Release(on)
		return nil, err
	}
	return p.serviceConn(s, st, func() { p.forward.Release(on) }), nil
}

// serveService hands a stream that the Peer opened to the node's own service, and returns
// when the connection is over.
func (p *Peer) serveService(ctx context.Context, s *live, st carrier.Stream, serve func(context.Context, peermap.Peer, net.Conn)) {
	entry, ok := p.admitted(s.Session)
	if !ok {
		p.node.Counters.Forbidden.Add(1)
		forward.Refuse(st, frame.PortForbidden)
		return
	}
	defer p.Retain(s.Session)()
	if _, err := st.Write(frame.AppendReply(nil, frame.Accepted)); err != nil {
		st.Reset()
		return
	}
	conn := p.serviceConn(s, st, nil)
	entry.BootID = s.Who.BootID
	serve(ctx, entry, conn)
	select {
	case <-conn.Over():
	case <-s.Done():
	}
}

// serviceConn makes a stream a connection; over, which may be nil, is called when it is
// let go of.
func (p *Peer) serviceConn(s *live, st carrier.Stream, over func()) *service.Conn {
	return service.New(st, service.Ends{Local: identity.Addr{ID: p.node.Self.ID}, Remote: s.Who.Addr()}, p.spawn, over)
}

// spawn runs f as part of the Link, unless that is over.
func (p *Peer) spawn(f func()) (spawned bool) {
	p.loop.ask(func(c *core) {
		if spawned = !c.over(); spawned {
			p.wg.Go(f)
		}
	})
	return spawned
}

// admitted gives the map entry of a Session's Peer, while the map still admits its Boot.
func (p *Peer) admitted(s *session.Session) (entry peermap.Peer, ok bool) {
	p.loop.ask(func(c *core) {
		entry, ok = c.entry, !c.over() && c.state.Facts().Admits(s.Who.BootID)
	})
	return entry, ok
}

func closedNow(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
