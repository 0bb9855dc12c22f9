package overlay

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/frame"
)

var (
	// errExpired ends a Session whose certificate does not hold any more.
	errExpired = errors.New("peer certificate expired")
)

// headerTime is how long a stream may take to say what it is.
const headerTime = 10 * time.Second

// serve runs everything that the far side begins on a Session, and returns when the
// Session and all of that is over. The next try does not wait for what it leaves
// behind.
func (l *peerLink) serve(ctx context.Context, s live, peer Peer) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.expiry.start(s.who.Expires)
	defer s.expiry.stop()

	var wg sync.WaitGroup
	wg.Go(func() { _ = l.forward.ServeDatagrams(s.Session) }) //nolint:contextcheck // binding a port of loopback waits for nothing
	control := &controlPair{dialer: s.dialer}
	var open atomic.Int64
	for {
		st, err := s.AcceptStream()
		if err != nil {
			break
		}
		if open.Add(1) > int64(l.node.limits.streams) {
			open.Add(-1)
			l.node.counts.linkLimit.Add(1)
			st.Reset()
			continue
		}
		wg.Go(func() {
			defer open.Add(-1)
			l.serveStream(ctx, s, peer, control, &wg, st)
		})
	}
	<-s.Done() // or just about to be
	cancel(s.Err())
	l.over(s)
	wg.Wait()
	s.Wait()
}

// controls tells whether Sessions with p carry control connections.
func (n *Node) controls(p Peer) bool {
	return n.cfg.OnControl != nil && (n.coordinator() || p.Coordinator)
}

// serveStream serves one stream that the Peer opened.
func (l *peerLink) serveStream(ctx context.Context, s live, peer Peer, control *controlPair, wg *sync.WaitGroup, st carrier.Stream) {
	_ = st.SetReadDeadline(time.Now().Add(headerTime))
	h, err := frame.ReadHeader(st)
	if err != nil {
		if errors.Is(err, frame.ErrInvalid) {
			l.node.counts.invalidFrames.Add(1)
			forward.Refuse(st, frame.FrameInvalid)
		}
		st.Reset()
		return
	}
	_ = st.SetReadDeadline(time.Time{})
	switch h.Kind {
	case frame.KindTCP:
		if serve := l.node.cfg.Serve[h.Port]; serve != nil {
			l.serveService(ctx, s, st, serve)
			return
		}
		l.forward.ServeStream(ctx, s.Session, st, h.Port)
	case frame.KindControl1, frame.KindControl2:
		if s.dialer || !l.node.controls(peer) {
			l.node.counts.forbidden.Add(1)
			forward.Refuse(st, frame.PortForbidden)
			return
		}
		conns, complete, err := control.add(h.Kind, l.controlConn(s, st))
		switch {
		case err != nil:
			s.Close(err)
		case complete:
			wg.Go(func() { l.runControl(ctx, s, peer, conns) })
		}
	case frame.KindBench:
		l.serveBench(st)
	case frame.KindRest:
		l.serveRest(s, st)
	case frame.KindCertificate:
		l.serveCertificate(s, st)
	default:
		l.node.counts.invalidFrames.Add(1)
		forward.Refuse(st, frame.FrameInvalid)
	}
}
