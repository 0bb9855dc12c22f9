package datagram

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/backlog"
	"cadre.dev/overlay/internal/carrier"
	quic "github.com/apernet/quic-go"
	"github.com/hashicorp/yamux"
)

// ErrStreamLimit reports that the Peer takes no more streams for now.
var ErrStreamLimit = errors.New("peer has too many streams open")

// session is the datagram carrier.
type session struct {
	raw    *quic.Conn
	sizes  *sizes // nil with the stock congestion controller
	limits limits
	log    *slog.Logger
	frames *frames
	muxer  muxer // control streams
	pings  pings
	outbox *backlog.Queue   // datagrams to send
	large  *backlog.Queue   // datagrams that exceed a packet
	pipe   *quic.SendStream // for large; of sendLarge
	// inbox holds the large datagram that came last; arrived rings when there is one.
	inbox   chan []byte
	arrived alarm
	// control holds the control stream that the far side opened last; opened rings
	// when there is one.
	control chan carrier.Stream
	opened  alarm
	start   time.Time
	// heard is when authentic bytes last came, as a duration since start.
	heard atomic.Int64
	done  chan struct{}
	// pinging: a ping is under way.
	pinging atomic.Bool
	// answers counts the answers that wait for the connection.
	answers atomic.Int64
	wg      sync.WaitGroup

	mu     sync.Mutex
	reason error       // why the Session ended; guarded by mu
	ended  bool        // no new goroutines; guarded by mu
	timer  *time.Timer // for the next beat; guarded by mu
}

var _ carrier.Session = (*session)(nil)

// muxSide is yamux.Client or yamux.Server.
type muxSide = func(conn yamuxConn, c *yamux.Config) (*yamux.Session, error)

func newSession(c *Conn, log *slog.Logger, side muxSide) *session {
	s := &session{
		raw: c.raw, sizes: c.sizes, limits: c.transport.limits, log: log,
		outbox: backlog.New(), large: backlog.New(),
		inbox:   make(chan []byte, 1),
		control: make(chan carrier.Stream, 1),
		start:   time.Now(),
		done:    make(chan struct{}),
	}
	s.frames = &frames{
		conn: c.first, heard: s.hear, answer: s.answer, pong: s.pings.answered,
		end: func(err error) { s.fail("control streams", err) },
	}
	s.muxer = muxer{first: c.first, frames: s.frames, gone: make(chan struct{}), make: func() (*yamux.Session, error) {
		return s.multiplex(log, side)
	}}
	s.wg.Go(s.awaitControl)
	s.wg.Go(s.receiveLarge)
	s.wg.Add(1) // for finish
	context.AfterFunc(s.raw.Context(), s.finish)
	if s.sizes != nil {
		s.sizes.watch(func() { s.spawn(func() { s.Close(errBlackHole) }) })
	}
	s.spawn(s.beat)
	return s
}

// finish ends the Session's own state when QUIC has ended.
func (s *session) finish() {
	defer s.wg.Done()
	s.mu.Lock()
	if s.reason == nil {
		s.reason = describe(context.Cause(s.raw.Context()))
	}
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	close(s.done)
	s.muxer.close()
}

// spawn runs f as part of the Session, unless it is over.
func (s *session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.wg.Go(f)
	return true
}

func (s *session) OpenStream() (carrier.Stream, error) {
	raw, err := s.raw.OpenStream()
	var limit *quic.StreamLimitReachedError
	switch {
	case err == nil:
		return &stream{raw: raw, s: s}, nil
	case errors.As(err, &limit):
		return nil, fmt.Errorf("open stream: %w", ErrStreamLimit)
	}
	return nil, fmt.Errorf("open stream: %w", s.closedError(err))
}

// OpenControl opens a stream outside of the limit on streams. Its bytes are always read
// off the connection, even without a reader.
func (s *session) OpenControl() (carrier.Stream, error) {
	mux, err := s.muxer.get()
	if err != nil {
		return nil, fmt.Errorf("open control stream: %w", s.closedError(err))
	}
	raw, err := mux.OpenStream()
	if err != nil {
		if mux.IsClosed() {
			err = s.closedError(nil)
		}
		return nil, fmt.Errorf("open control stream: %w", err)
	}
	return &controlStream{raw: raw, mux: mux, s: s}, nil
}

func (s *session) AcceptStream() (carrier.Stream, error) {
	for {
		ctx := s.opened.context()
		select {
		case st := <-s.control:
			return st, nil
		default:
		}
		raw, err := s.raw.AcceptStream(ctx)
		switch {
		case err == nil:
			return &stream{raw: raw, s: s}, nil
		case ctx.Err() == nil:
			<-s.done // or just about to be
			return nil, fmt.Errorf("accept stream: %w", s.closedError(nil))
		}
	}
}

// awaitControl reads the first stream while there are no control streams.
func (s *session) awaitControl() {
	err := s.muxer.await(func() {
		s.spawn(func() { _, _ = s.muxer.get() }) // an error ends the Session
	})
	if err != nil {
		s.fail("control streams", err)
	}
}

// multiplex begins to multiplex the first stream, with the muxer's lock held.
func (s *session) multiplex(log *slog.Logger, side muxSide) (*yamux.Session, error) {
	cfg := carrier.MuxConfig(log)
	cfg.MaxStreamWindowSize = controlWindow
	mux, err := side(s.frames, cfg)
	if err != nil {
		s.spawn(func() { s.fail("control streams", err) })
		return nil, fmt.Errorf("control streams: %w", err)
	}
	s.spawn(func() { s.acceptControl(mux) })
	return mux, nil
}

func (s *session) acceptControl(mux *yamux.Session) {
	for {
		raw, err := mux.AcceptStream()
		if err != nil {
			return
		}
		select {
		case s.control <- &controlStream{raw: raw, mux: mux, s: s}:
			s.opened.ring()
		case <-s.done:
			return
		}
	}
}

// fail ends a Session after the failure of one of its parts. The failure is often the end
// of the connection, seen here first: then the connection's error is the reason, and not
// the operation that failed.
func (s *session) fail(doing string, err error) {
	if errors.Is(err, net.ErrClosed) { // which every end of a connection is
		s.Close(describe(err))
		return
	}
	s.Close(fmt.Errorf("%s: %w", doing, err))
}

// Stats may be called at any time. QUIC counts lost packets only for its own congestion
// controller, and reports them to any other controller.
func (s *session) Stats() carrier.Stats {
	st := s.raw.ConnectionStats()
	if s.sizes != nil {
		st.PacketsLost = s.sizes.lost.Load()
	}
	return carrier.Stats{
		BytesIn: st.BytesReceived, BytesOut: st.BytesSent,
		RTT:         st.LatestRTT,
		PacketsSent: st.PacketsSent, PacketsLost: st.PacketsLost,
		DatagramsDropped: s.outbox.Dropped() + s.large.Dropped(),
	}
}

func (s *session) Done() <-chan struct{} { return s.done }

func (s *session) Err() error {
	select {
	case <-s.done:
		return s.closedError(nil)
	default:
		return nil
	}
}

// closedError returns why the Session is over. cause is the error of a call on the
// connection, which may be the first sign of the end. The result does not wrap the
// reason: a wrapped io.EOF would look like a clean end to a reader.
func (s *session) closedError(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.reason != nil:
		return fmt.Errorf("%w: %s", carrier.ErrClosed, s.reason.Error())
	case cause != nil:
		return fmt.Errorf("%w: %s", carrier.ErrClosed, describe(cause).Error())
	}
	return carrier.ErrClosed
}

func (s *session) Close(reason error) {
	s.mu.Lock()
	if s.reason == nil && s.raw.Context().Err() == nil {
		s.reason = errors.New(text(reason))
	}
	s.mu.Unlock()
	_ = s.raw.CloseWithError(codeClosed, bounded(text(reason)))
}

func (s *session) Wait() { s.wg.Wait() }
