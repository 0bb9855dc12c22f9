package forward

import (
	"context"
	"errors"
	"fmt"
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
	ln     *net.TCPListener // nil until bound; guarded by mu
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
func (l *listener) bind() (*net.TCPListener, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(l.addr))
	l.ln = ln
	return ln, err
}

// listen accepts apps' connections until l closes. A port that cannot be bound
// is tried again: whoever holds it may let go.
func (p *Peer) listen(l *listener) {
	complained := false
	for {
		ln, err := l.bind()
		if err == nil {
			complained = false
			err = p.acceptFrom(l, ln)
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if !complained {
			complained = true
			p.log.Warn("offered port cannot be listened on", "address", l.addr, "error", err)
		}
		select {
		case <-l.closed:
			return
		case <-time.After(rebindWait):
		}
	}
}

func (p *Peer) acceptFrom(l *listener, ln *net.TCPListener) error {
	defer ln.Close()
	for {
		conn, err := ln.AcceptTCP()
		if err != nil {
			select {
			case <-l.closed:
				return net.ErrClosed
			default:
				return err
			}
		}
		if !p.spawn(func() { p.carry(conn, l.addr.Port()) }) {
			conn.Close()
			return net.ErrClosed
		}
	}
}

// carry takes one app's connection to the Peer.
func (p *Peer) carry(conn *net.TCPConn, port uint16) {
	st, on, err := p.openStream(frame.Header{Kind: frame.KindTCP, Port: port})
	if err != nil {
		_ = conn.SetLinger(0)
		conn.Close()
		p.log.Debug("connection not forwarded", "port", port, "error", err)
		return
	}
	pipe := &pipe{conn: conn, st: st, on: on, port: port, dir: outbound}
	c, ok := p.adopt(pipe)
	if !ok {
		pipe.abort()
		return
	}
	defer p.drop(pipe)
	// The app's first bytes need not wait a round trip for the reply.
	err = pipe.run(c, func() error {
		err := readReply(st)
		pipe.answered.Store(err == nil)
		return err
	})
	if errors.Is(err, ErrRefused) {
		// A workload that is down refuses every try of every client: not news.
		tell := p.log.Info
		if errors.Is(err, errDialRefused) {
			tell = p.log.Debug
		}
		tell("peer refused a connection", "port", port, "error", err)
	}
}

// Waiting is how many connections of apps wait for a Session.
func (p *Peer) Waiting() int { return int(p.waiting.Load()) }

// openStream opens a stream on the Session in use, and waits up to holdLimit
// for one.
func (p *Peer) openStream(h frame.Header) (carrier.Stream, carrier.Session, error) {
	ctx, cancel := context.WithTimeout(context.Background(), holdLimit)
	defer cancel()
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	for {
		session, changed := p.current()
		if session != nil {
			st, err := session.OpenStream()
			if err == nil {
				if _, err = st.Write(h.Append(nil)); err == nil {
					return st, session, nil
				}
				st.Reset()
			}
		}
		select {
		case <-changed:
		case <-p.closing:
			return nil, nil, net.ErrClosed
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("no session with the peer within %v", holdLimit)
		}
	}
}

func readReply(st carrier.Stream) error {
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
