package peer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/control"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/peermap"
)

// headerTime is the time within which a stream has to send its header.
const headerTime = 10 * time.Second

// served is a Session with a goroutine that serves its streams.
type served struct {
	*live
	entry    peermap.Peer // when it came
	controls *control.Pairing
	wg       sync.WaitGroup
}

// serve handles every stream and datagram that the far side begins on a Session, and
// returns when the Session and its streams are over. The next dial does not wait for the
// remaining streams.
func (p *Peer) serve(ctx context.Context, l *live, entry peermap.Peer) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.Expiry.Start(l.Who.Expires)
	defer l.Expiry.Stop()

	s := &served{live: l, entry: entry, controls: p.control.Pairing(l.Session)}
	s.wg.Go(func() { _ = p.forward.ServeDatagrams(l.Session.Session) }) //nolint:contextcheck // binding a port of loopback waits for nothing
	var open atomic.Int64
	for {
		st, err := s.AcceptStream()
		if err != nil {
			break
		}
		if open.Add(1) > int64(p.node.Streams) {
			open.Add(-1)
			p.node.Counters.LinkLimit.Add(1)
			st.Reset()
			continue
		}
		s.wg.Go(func() {
			defer open.Add(-1)
			p.serveStream(ctx, s, st)
		})
	}
	<-s.Done() // or just about to be
	cancel(s.Err())
	p.lost(l)
	s.wg.Wait()
	s.Wait()
}

// serveStream serves one stream that the Peer opened.
func (p *Peer) serveStream(ctx context.Context, s *served, st carrier.Stream) {
	_ = st.SetReadDeadline(time.Now().Add(headerTime))
	h, err := frame.ReadHeader(st)
	if err != nil {
		if errors.Is(err, frame.ErrInvalid) {
			p.node.Counters.InvalidFrames.Add(1)
			forward.Refuse(st, frame.FrameInvalid)
		}
		st.Reset()
		return
	}
	_ = st.SetReadDeadline(time.Time{})
	switch h.Kind {
	case frame.KindTCP:
		if serve := p.node.Serve[h.Port]; serve != nil {
			p.serveService(ctx, s.live, st, serve)
			return
		}
		// The ports are those of the Boot that the map names now, also while a Session of
		// the previous Boot ends.
		if _, ok := p.admitted(s.Session); !ok {
			p.node.Counters.Forbidden.Add(1)
			forward.Refuse(st, frame.PortForbidden)
			return
		}
		p.forward.ServeStream(ctx, s.Session.Session, st, h.Port)
	case frame.KindControl1, frame.KindControl2:
		if s.Dialer || !p.node.controls(s.entry) {
			p.node.Counters.Forbidden.Add(1)
			forward.Refuse(st, frame.PortForbidden)
			return
		}
		if run := s.controls.Serve(h.Kind, st); run != nil {
			run(ctx) // here, so that a pair counts among the Peer's streams
		}
	case frame.KindBench:
		p.node.Benches.Serve(st, p.mayBench, p.log)
	case frame.KindRest:
		p.serveRest(s.live, st)
	case frame.KindCertificate:
		p.node.Certificates.Take(s.Session, st, p.log)
	default:
		p.node.Counters.InvalidFrames.Add(1)
		forward.Refuse(st, frame.FrameInvalid)
	}
}

// mayBench reports whether the Peer may begin a bench now. The call spends a permission.
func (p *Peer) mayBench() (may bool) {
	p.loop.ask(func(c *core) {
		may = !c.over() && (c.entry.Coordinator || time.Now().Before(c.benchEnd))
		c.benchEnd = time.Time{}
	})
	return may
}
