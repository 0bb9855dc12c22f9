package overlay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
)

var (
	// errControlClosed ends a Session whose control connections were closed.
	errControlClosed = errors.New("control connection closed")
	// errControlTwice ends a Session whose dialer opens a control connection again.
	errControlTwice = fmt.Errorf("%w: control connection opened twice", frame.ErrInvalid)
	// errControlMoved ends control connections that live on a better Session now.
	errControlMoved = errors.New("control moved to another session")
)

// control is where the control connections of a Link are. The dialer has them on the
// Session in use, and decides when they leave another; the other side serves what the
// dialer opens.
type control struct {
	// pair is the dialer's present one.
	pair *pairState
	// opening are the Sessions on which a pair is being opened.
	opening map[uint64]bool
	// pairs counts the pairs that run, by Session: such a Session is not retired.
	pairs map[uint64]int
}

// controlPair collects the control connections of one Session.
type controlPair struct {
	dialer bool

	mu            sync.Mutex
	first, second net.Conn
}

// add takes one connection and tells whether the pair is complete now. A pair that
// is complete makes room for the next: control may leave a Session and come back.
func (c *controlPair) add(kind frame.Kind, conn net.Conn) (ControlConns, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place := &c.first
	if kind == frame.KindControl2 {
		place = &c.second
	}
	if *place != nil {
		return ControlConns{}, false, errControlTwice
	}
	*place = conn
	if c.first == nil || c.second == nil {
		return ControlConns{}, false, nil
	}
	conns := ControlConns{Dialer: c.dialer, First: c.first, Second: c.second}
	c.first, c.second = nil, nil
	return conns, true, nil
}

// openControl opens both control connections on the Session in use and runs them.
func (l *peerLink) openControl(ctx context.Context, s live, peer Peer) {
	// A Session that is left and used again before the pair is open needs one only; two
	// at once would be taken for nonsense.
	if !l.beginOpening(s.number) {
		return
	}
	conns, err := l.openPair(s)
	l.endOpening(s.number)
	if err != nil {
		s.Close(err)
		return
	}
	l.runControl(ctx, s, peer, conns)
}

func (l *peerLink) beginOpening(session uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.control.opening[session] {
		return false
	}
	if l.control.opening == nil {
		l.control.opening = map[uint64]bool{}
	}
	l.control.opening[session] = true
	return true
}

func (l *peerLink) endOpening(session uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.control.opening, session)
}

// openPair opens both connections, first things first.
func (l *peerLink) openPair(s live) (ControlConns, error) {
	pair := controlPair{dialer: true}
	var (
		conns    ControlConns
		complete bool
	)
	for _, kind := range []frame.Kind{frame.KindControl1, frame.KindControl2} {
		st, err := s.OpenControl()
		if err == nil {
			_, err = st.Write(frame.Header{Kind: kind}.Append(nil))
		}
		if err != nil {
			return ControlConns{}, fmt.Errorf("open %s stream: %w", kind, err)
		}
		if conns, complete, err = pair.add(kind, l.controlConn(s, st)); err != nil {
			return ControlConns{}, err
		}
	}
	if !complete {
		return ControlConns{}, errControlTwice
	}
	return conns, nil
}

// runControl hands a pair to OnControl until the Session ends, ctx does, or the
// dialer has a pair on another Session.
func (l *peerLink) runControl(ctx context.Context, s live, peer Peer, conns ControlConns) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	shared := &pairState{end: cancel}
	first, second := conns.First.(*controlConn), conns.Second.(*controlConn)
	if !l.takeControl(s, shared) {
		first.Reset()
		second.Reset()
		return
	}
	first.pair.Store(shared)
	second.pair.Store(shared)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-s.Done():
			cancel(s.Err())
		case <-stop:
		}
	})
	l.node.cfg.OnControl(ctx, peer, conns)
	close(stop)
	wg.Wait()
	l.dropControl(s)
}

// takeControl notes a pair; false when it comes too late. Pairs are opened beside
// each other, and one for a Session that has been overtaken may be the last to be
// ready.
func (l *peerLink) takeControl(s live, pair *pairState) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, lives := l.sessions[s.number]; !lives || l.stopped {
		return false
	}
	c := &l.control
	if s.dialer {
		if used, _ := l.state.InUse(); used != s.number {
			return false
		}
		if c.pair != nil {
			c.pair.end(errControlMoved)
		}
		c.pair = pair
	}
	if c.pairs == nil {
		c.pairs = map[uint64]int{}
	}
	c.pairs[s.number]++
	return true
}

func (l *peerLink) dropControl(s live) {
	l.mu.Lock()
	c := &l.control
	if c.pairs[s.number]--; c.pairs[s.number] == 0 {
		delete(c.pairs, s.number)
	}
	l.mu.Unlock()
	l.unused(s.Session)
}

// controlConn is one control connection.
type controlConn struct {
	carrier.Stream
	link          *peerLink
	session       live
	local, remote Addr
	// pair is set once the pair is handed out.
	pair atomic.Pointer[pairState]
}

// pairState is what both connections of a pair know.
type pairState struct {
	// gone tells that the far side gave the pair up.
	gone atomic.Bool
	end  context.CancelCauseFunc
}

var _ net.Conn = (*controlConn)(nil)

// controlConn makes a stream the connection that OnControl gets.
func (l *peerLink) controlConn(s live, st carrier.Stream) net.Conn {
	return &controlConn{
		Stream: st, link: l, session: s,
		local:  Addr{ID: l.node.cfg.Self},
		remote: Addr{ID: s.who.ID, BootID: s.who.BootID, PublicKey: s.who.PublicKey},
	}
}

// Read notes when the far side gave the connection up, and ends its OnControl.
func (c *controlConn) Read(b []byte) (int, error) {
	n, err := c.Stream.Read(b)
	if errors.Is(err, carrier.ErrReset) {
		if pair := c.pair.Load(); pair != nil {
			pair.gone.Store(true)
			pair.end(errControlMoved)
		}
	}
	return n, err
}

// Close ends the connection, and the whole Session with it, which is of no use
// without control: the dialer makes a new one. Where control has moved on, the
// Session stays: the dialer knows, and the other side takes a connection that the
// dialer gave up for one that has moved.
func (c *controlConn) Close() error {
	pair := c.pair.Load()
	c.link.mu.Lock()
	// The dialer's present pair, or one that the dialer has not given up.
	holds := pair != nil && (c.session.dialer && c.link.control.pair == pair || !c.session.dialer && !pair.gone.Load())
	c.link.mu.Unlock()
	if holds {
		c.session.Close(errControlClosed)
	}
	c.Reset()
	return nil
}

func (c *controlConn) LocalAddr() net.Addr  { return c.local }
func (c *controlConn) RemoteAddr() net.Addr { return c.remote }
