package carrier

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/backlog"
	"cadre.dev/overlay/internal/frame"
	"github.com/hashicorp/yamux"
)

const (
	// streamWindow lets one stream fill a wide-area path.
	streamWindow = 4 << 20
	// writeTimeout is how long one frame may wait for the connection.
	writeTimeout = 10 * time.Second
	// pingInterval keeps bytes coming from a far side that is alive.
	pingInterval = 2 * time.Second
	// dialerWaits and otherWaits are the times of silence after which a side asks for bytes.
	// The dialing side asks first, and its question also counts as a sign of life for the
	// other side, which halves the cost of an idle Session for both.
	dialerWaits = pingInterval * 3 / 4
	otherWaits  = pingInterval * 3 / 2
	// measureEvery so many beats the round trip is measured all the same.
	measureEvery = 16
	// quietLimit is the dead-man timer: with pingInterval, a dead far side is
	// noticed within 10 s.
	quietLimit = 8 * time.Second
	// acceptBacklog is how many streams may wait to be accepted.
	acceptBacklog = 256
)

// session is the byte-stream carrier.
type session struct {
	mux    *yamux.Session
	join   *join
	meter  *meter
	queue  *backlog.Queue
	dialer bool
	// signals and datagrams are the two streams that the carrier itself uses.
	signals, datagrams *yamux.Stream
	outbox             outbox
	rtt                atomic.Int64
	pinging            atomic.Bool
	beats              atomic.Uint32
	done               chan struct{}
	wg                 sync.WaitGroup

	mu      sync.Mutex
	reason  error              // why the Session ended; guarded by mu
	ended   bool               // no new goroutines; guarded by mu
	timer   *time.Timer        // for the next beat; guarded by mu
	streams map[uint32]*stream // not yet over in both directions; guarded by mu
	early   []uint32           // reset before we accepted them; guarded by mu
}

var _ Session = (*session)(nil)

// Metered puts a byte counter beneath TLS; its result goes to tls.Client or
// tls.Server and the TLS connection on to [Client] or [Server].
func Metered(conn net.Conn) net.Conn { return newMeter(conn) }

// Client makes the dialer's side of a Session on conn, which must lie over a
// [Metered] connection and be past its handshake. ctx bounds the set-up alone.
// On error conn is closed.
func Client(ctx context.Context, conn *tls.Conn, log *slog.Logger) (Session, error) {
	s, err := newSession(conn, log, yamux.Client)
	if err != nil {
		return nil, err
	}
	s.dialer = true
	s.signals, err = s.openOwn(frame.KindSignal)
	if err == nil {
		s.datagrams, err = s.openOwn(frame.KindUDP)
	}
	return s.begin(ctx, err)
}

// Server makes the acceptor's side, as [Client] makes the dialer's.
func Server(ctx context.Context, conn *tls.Conn, log *slog.Logger) (Session, error) {
	s, err := newSession(conn, log, yamux.Server)
	if err != nil {
		return nil, err
	}
	s.signals, err = s.acceptOwn(ctx, frame.KindSignal)
	if err == nil {
		s.datagrams, err = s.acceptOwn(ctx, frame.KindUDP)
	}
	return s.begin(ctx, err)
}

func newSession(conn *tls.Conn, log *slog.Logger, side func(conn yamuxConn, c *yamux.Config) (*yamux.Session, error)) (*session, error) {
	m, ok := conn.NetConn().(*meter)
	if !ok {
		conn.Close()
		return nil, errors.New("make session: connection is not metered")
	}
	s := &session{
		meter: m, queue: backlog.New(),
		done:    make(chan struct{}),
		streams: make(map[uint32]*stream),
	}
	s.wg.Add(1) // for finish
	s.join = newJoin(conn, m, s.spawn, func() { go s.finish() })
	var err error
	s.mu.Lock() // finish may come before side returns
	s.mux, err = side(s.join, MuxConfig(log))
	s.mu.Unlock()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("make session: %w", err)
	}
	return s, nil
}

// MuxConfig gives the yamux settings of every connection of the overlay.
func MuxConfig(log *slog.Logger) *yamux.Config {
	return &yamux.Config{
		AcceptBacklog: acceptBacklog,
		// Liveness has one owner, the dead-man timer: a yamux ping that queues
		// behind bulk data must not end a Session that moves bytes.
		EnableKeepAlive:        false,
		KeepAliveInterval:      pingInterval,
		ConnectionWriteTimeout: writeTimeout,
		MaxStreamWindowSize:    streamWindow,
		// Would close the whole Session when the far side accepts slowly.
		StreamOpenTimeout: 0,
		// Would cut a half-closed connection that is still being read.
		StreamCloseTimeout: 0,
		Logger:             muxLog{log},
	}
}

// openOwn opens one of the carrier's own streams.
func (s *session) openOwn(kind frame.Kind) (*yamux.Stream, error) {
	raw, err := s.mux.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("open %s stream: %w", kind, err)
	}
	if _, err := raw.Write(frame.Header{Kind: kind}.Append(nil)); err != nil {
		return nil, fmt.Errorf("open %s stream: %w", kind, err)
	}
	return raw, nil
}

// acceptOwn accepts one of the carrier's own streams.
func (s *session) acceptOwn(ctx context.Context, kind frame.Kind) (*yamux.Stream, error) {
	raw, err := s.mux.AcceptStreamWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("accept %s stream: %w", kind, err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = raw.SetReadDeadline(deadline)
		defer raw.SetReadDeadline(time.Time{})
	}
	h, err := frame.ReadHeader(raw)
	if err != nil {
		return nil, fmt.Errorf("accept %s stream: %w", kind, err)
	}
	if h.Kind != kind {
		return nil, fmt.Errorf("%w: %s stream where %s was due", frame.ErrInvalid, h.Kind, kind)
	}
	return raw, nil
}

// begin starts the Session's goroutines, or ends a half-made Session on err.
func (s *session) begin(ctx context.Context, err error) (Session, error) {
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		s.mux.Close()
		if fault := s.meter.firstFault(); fault != nil {
			err = fmt.Errorf("%w (%w)", err, fault)
		}
		return nil, err
	}
	s.wg.Go(s.receiveSignals)
	s.spawn(s.beat)
	return s, nil
}

// finish ends the Session's own state when yamux ends.
func (s *session) finish() {
	defer s.wg.Done()
	s.mu.Lock()
	if s.reason == nil {
		s.reason = errors.New("connection lost")
		if fault := s.meter.firstFault(); fault != nil {
			s.reason = fmt.Errorf("connection lost: %w", fault)
		}
	}
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	close(s.done)
	// Waits until yamux has let go of the connection and of every stream.
	s.mux.Close()
}

// beat comes every pingInterval. It is the dead-man timer: it ends the Session when
// nothing comes from the far side for too long, and asks for bytes when none came lately.
// Between beats it is no goroutine.
func (s *session) beat() {
	if quiet := s.meter.quiet(); quiet > quietLimit {
		s.Close(fmt.Errorf("%w for %v", ErrDead, quiet.Round(time.Millisecond)))
		return
	}
	s.mu.Lock()
	if !s.ended {
		s.timer = time.AfterFunc(pingInterval, func() { s.spawn(s.beat) })
	}
	s.mu.Unlock()
	waits := otherWaits
	if s.dialer {
		waits = dialerWaits
	}
	if s.beats.Add(1)%measureEvery != 1 && s.meter.quiet() < waits {
		return
	}
	if !s.pinging.CompareAndSwap(false, true) {
		return
	}
	defer s.pinging.Store(false)
	if rtt, err := s.mux.Ping(); err == nil {
		s.rtt.Store(int64(rtt))
	}
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

func (s *session) OpenStream() (Stream, error) {
	raw, err := s.mux.OpenStream()
	if err != nil {
		if s.mux.IsClosed() {
			err = s.closedError()
		}
		return nil, fmt.Errorf("open stream: %w", err)
	}
	return s.register(raw), nil
}

// OpenControl is an ordinary OpenStream: every stream has at most one frame in yamux's
// queue, join takes none ahead where writes are slow, and the socket holds back unsent
// bytes.
func (s *session) OpenControl() (Stream, error) { return s.OpenStream() }

func (s *session) AcceptStream() (Stream, error) {
	raw, err := s.mux.AcceptStream()
	if err != nil {
		s.Close(err)
		return nil, fmt.Errorf("accept stream: %w", s.closedError())
	}
	return s.register(raw), nil
}

func (s *session) Stats() Stats {
	return Stats{
		BytesIn: s.meter.in.Load(), BytesOut: s.meter.out.Load(),
		RTT:              time.Duration(s.rtt.Load()),
		DatagramsDropped: s.queue.Dropped(),
	}
}

func (s *session) Done() <-chan struct{} { return s.done }

func (s *session) Err() error {
	select {
	case <-s.done:
		return s.closedError()
	default:
		return nil
	}
}

// closedError may be called a moment before the reason is known. It does not wrap the
// reason: a wrapped io.EOF would look like a clean end to a reader.
func (s *session) closedError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == nil {
		return ErrClosed
	}
	return fmt.Errorf("%w: %s", ErrClosed, s.reason.Error())
}

func (s *session) Close(reason error) {
	s.mu.Lock()
	if s.reason == nil && !s.mux.IsClosed() {
		s.reason = reason
	}
	s.mu.Unlock()
	s.mux.Close()
}

func (s *session) Wait() { s.wg.Wait() }
