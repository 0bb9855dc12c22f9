// The node's own services: streams to a port that the node itself serves, and no
// workload of its machine.

package overlay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/service"
)

// ErrRefused reports a Peer that turned a stream down; its text has the Peer's reason,
// PORT_FORBIDDEN where it does not serve the port.
var ErrRefused = forward.ErrRefused

// checkServe copies the node's own services.
func checkServe(serve map[uint16]func(context.Context, Peer, net.Conn)) (map[uint16]func(context.Context, Peer, net.Conn), error) {
	for port, f := range serve {
		switch {
		case port == 0:
			return nil, errors.New("serve: port 0: a service needs a port from 1 to 65535")
		case f == nil:
			return nil, fmt.Errorf("serve: port %d has no function: leave the port out to serve nothing on it", port)
		}
	}
	return maps.Clone(serve), nil
}

// DialService opens a connection to a port that the Peer serves itself (its
// Config.Serve), or that it lets this node reach, over the Session in use; while there is
// none it waits for one until ctx ends, which bounds the opening alone. The connection
// is full-duplex and has deadlines and CloseWrite. It stays on its Session and ends
// with that: a Link's move to a better path does not move it. Its RemoteAddr is an [Addr]
// with the Boot that the Session has proved.
//
// Errors: [ErrUnknownPeer] for a Peer that the map does not name (any more), [ErrRefused]
// when the Peer turns it down, [ErrNoSession] with ctx's cause when none came in time.
func (n *Node) DialService(ctx context.Context, id ID, port uint16) (net.Conn, error) {
	if port == 0 {
		return nil, fmt.Errorf("dial service of %s: port 0: want 1 to 65535", id)
	}
	l, err := n.link(id)
	if err == nil {
		var conn net.Conn
		if conn, err = l.dialService(ctx, port); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("dial service %d of %s: %w", port, id, err)
}

func (l *peerLink) dialService(ctx context.Context, port uint16) (net.Conn, error) {
	for {
		st, on, changed, err := l.forward.Open(ctx, frame.Header{Kind: frame.KindTCP, Port: port})
		if errors.Is(err, net.ErrClosed) {
			return nil, ErrUnknownPeer
		}
		if err != nil {
			_, _, why := l.used()
			return nil, errors.Join(context.Cause(ctx), why)
		}
		conn, err := l.opened(ctx, st, on, changed)
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, forward.ErrRefused), on.Err() == nil && !closedNow(changed):
			return nil, err
		}
		// Its Session ended or was left, and nobody has said anything on it yet.
	}
}

// opened waits for the Peer's answer to a stream and makes it a connection.
func (l *peerLink) opened(ctx context.Context, st carrier.Stream, on carrier.Session, changed <-chan struct{}) (net.Conn, error) {
	s, known := l.sessionOf(on)
	if !known {
		st.Reset()
		l.forward.Release(on)
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
		l.forward.Release(on)
		return nil, err
	}
	return l.serviceConn(s, st, func() { l.forward.Release(on) }), nil
}

// serveService hands a stream that the Peer opened to the node's own service, and returns
// when the connection is over.
func (l *peerLink) serveService(ctx context.Context, s live, st carrier.Stream, serve func(context.Context, Peer, net.Conn)) {
	peer, ok := l.admitted(s)
	if !ok {
		l.node.counts.forbidden.Add(1)
		forward.Refuse(st, frame.PortForbidden)
		return
	}
	l.forward.Hold(s.Session)
	defer l.forward.Release(s.Session)
	if _, err := st.Write(frame.AppendReply(nil, frame.Accepted)); err != nil {
		st.Reset()
		return
	}
	conn := l.serviceConn(s, st, nil)
	serve(ctx, peer, conn)
	select {
	case <-conn.Over():
	case <-s.Done():
	}
}

// serviceConn makes a stream a connection; over, which may be nil, is called when it is
// let go of.
func (l *peerLink) serviceConn(s live, st carrier.Stream, over func()) *service.Conn {
	ends := service.Ends{
		Local:  Addr{ID: l.node.cfg.Self},
		Remote: Addr{ID: s.who.ID, BootID: s.who.BootID, PublicKey: s.who.PublicKey},
	}
	return service.New(st, ends, l.spawn, over)
}

// spawn runs f as part of the Link, unless that is over.
func (l *peerLink) spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	l.wg.Go(f)
	return true
}

// admitted gives the map entry of a Session's Peer, with the Boot that it has proved,
// while the map still admits that.
func (l *peerLink) admitted(s live) (Peer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	peer := l.peer
	peer.BootID = s.who.BootID
	return peer, !l.stopped && l.state.Facts().Admits(s.who.BootID)
}

// sessionOf tells who is at the other end of a Session.
func (l *peerLink) sessionOf(on carrier.Session) (live, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sessions {
		if s.Session == on {
			return s, true
		}
	}
	return live{}, false
}

func closedNow(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
