package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
)

// ErrRefused reports a stream that the receiver turned down.
var ErrRefused = errors.New("refused by peer")

// errDialRefused: the policy allowed it, nothing listens there. Also ErrRefused.
var errDialRefused = fmt.Errorf("%w: %s", ErrRefused, frame.DialRefused)

// listener is one offered TCP port on the Peer's VIP.
type listener struct {
	addr netip.AddrPort

	mu     sync.Mutex
	ln     net.Listener // nil until bound; guarded by mu
	closed chan struct{}
}

func newListener(addr netip.AddrPort) *listener {
	return &listener{addr: addr, closed: make(chan struct{})}
}

func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.closed)
	if l.ln != nil {
		l.ln.Close()
	}
}

// bind listens, unless l is closed.
func (l *listener) bind(listener Listener) (net.Listener, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	ln, err := listener.Listen(context.Background(), "tcp", l.addr.String())
	if err != nil {
		return nil, err
	}
	l.ln = ln
	return ln, nil
}

// listen accepts apps' connections until l closes, and hands them to take, which owns them. A
// failed bind is tried again, since another process may release the port.
func (l *listener) listen(cfg Config, log *slog.Logger, take func(*net.TCPConn) bool) {
	complained := false
	for {
		ln, err := l.bind(cfg.Listener)
		if err == nil {
			complained = false
			err = l.acceptFrom(ln, take)
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if !complained {
			complained = true
			log.Warn("offered port cannot be listened on", "address", l.addr, "error", err)
		}
		select {
		case <-l.closed:
			return
		case <-time.After(rebindWait):
		}
	}
}

func (l *listener) acceptFrom(ln net.Listener, take func(*net.TCPConn) bool) error {
	defer ln.Close()
	for {
		c, err := ln.Accept()
		if err != nil {
			select {
			case <-l.closed:
				return net.ErrClosed
			default:
				return err
			}
		}
		conn, ok := c.(*net.TCPConn)
		if !ok {
			c.Close()
			return fmt.Errorf("listener of %s gives %T, want *net.TCPConn", l.addr, c)
		}
		if !take(conn) {
			conn.Close()
			return net.ErrClosed
		}
	}
}

// listen takes apps' connections for one port of the Peer until l closes.
func (p *Peer) listen(l *listener) {
	l.listen(p.cfg, p.log, func(conn *net.TCPConn) bool { return p.spawn(func() { p.carry(conn, l.addr.Port()) }) })
}

// carry takes one app's connection to the Peer.
func (p *Peer) carry(conn *net.TCPConn, port uint16) {
	if p.waiting.Load() >= maxConns {
		_ = conn.SetLinger(0)
		conn.Close()
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.patience(), errNoSession)
	st, on, _, err := p.Open(ctx, frame.Header{Kind: frame.KindTCP, Port: port})
	cancel()
	if err != nil {
		_ = conn.SetLinger(0)
		conn.Close()
		p.log.Debug("connection not forwarded", "port", port, "error", err)
		return
	}
	pipe := &pipe{conn: conn, st: st, on: on, port: port, dir: outbound}
	c, ok := p.adopt(pipe)
	p.Release(on) // the pipe holds it now
	if !ok {
		pipe.abort()
		return
	}
	defer p.drop(pipe)
	// The app's first bytes need not wait a round trip for the reply.
	err = pipe.run(c, func() error {
		err := ReadReply(st)
		pipe.answered.Store(err == nil)
		return err
	})
	if errors.Is(err, ErrRefused) {
		// A workload that is down refuses every try of every client: not news.
		line := p.log.Info
		if errors.Is(err, errDialRefused) {
			line = p.log.Debug
		}
		line("peer refused a connection", "port", port, "error", err)
	}
}

// Waiting is how many connections of apps wait for a Session.
func (p *Peer) Waiting() int { return int(p.waiting.Load()) }

// Wants reports whether a connection or a datagram waits for a Session.
func (p *Peer) Wants() bool { return p.waiting.Load() > 0 || p.udp.hasWaiting() }

// errNoSession ends the wait of an app's connection.
var errNoSession = errors.New("no session with the peer in time")

// patience is how long an app's connection waits for a Session.
func (p *Peer) patience() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(holdLimit, p.rules.DemandTime)
}

// reserve gives the Session in use as current does, and holds it.
func (p *Peer) reserve() (carrier.Session, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != nil {
		p.holdLocked(p.session)
	}
	return p.session, p.changed
}

// Await waits until there is a Session, or fails as Open does.
func (p *Peer) Await(ctx context.Context) error {
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	for {
		session, changed := p.current()
		if session != nil {
			return nil
		}
		p.want()
		if err := p.pause(ctx, changed); err != nil {
			return err
		}
	}
}

// pause waits for another Session.
func (p *Peer) pause(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-p.closing:
		return net.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Open opens a stream on the Session in use and writes h. Without a Session, or if the
// Session accepts no stream, Open waits for one until ctx ends. changed closes when another
// Session is used. The Session counts as carrying a connection until Release is called. Open
// fails with [net.ErrClosed] when the Peer has left the map.
func (p *Peer) Open(ctx context.Context, h frame.Header) (st carrier.Stream, on carrier.Session, changed <-chan struct{}, err error) {
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	for {
		session, changed := p.reserve()
		if session != nil {
			st, err := session.OpenStream()
			if err == nil {
				if _, err = st.Write(h.Append(nil)); err == nil {
					return st, session, changed, nil
				}
				st.Reset()
			}
			p.Release(session)
		} else {
			p.want()
		}
		if err := p.pause(ctx, changed); err != nil {
			return nil, nil, nil, err
		}
	}
}

// ReadReply reads the receiver's answer to a stream. A stream that was turned down gives
// [ErrRefused] with the reason.
func ReadReply(st carrier.Stream) error {
	_ = st.SetReadDeadline(time.Now().Add(replyLimit))
	code, err := frame.ReadReply(st)
	if err != nil {
		return err
	}
	if code == frame.DialRefused {
		return errDialRefused
	}
	if code != frame.Accepted {
		return fmt.Errorf("%w: %s", ErrRefused, code)
	}
	return st.SetReadDeadline(time.Time{})
}
