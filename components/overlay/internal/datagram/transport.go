package datagram

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"cadre.dev/overlay/internal/frame"
	quic "github.com/apernet/quic-go"
	"github.com/apernet/quic-go/congestion"
)

var (
	// ErrTransportClosed reports a Transport that is over.
	ErrTransportClosed = errors.New("transport closed")
	// errHandshakeTime ends a handshake that takes too long.
	errHandshakeTime = errors.New("handshake took too long")
)

// Config makes a [Transport].
type Config struct {
	// Conn carries the packets, for this Transport alone. It is not closed with
	// the Transport. SetReadDeadline must wake a blocked read: closing the
	// Transport rests on it. Send errors of a path must not come through: QUIC
	// takes any but EMSGSIZE for the end of the connection.
	Conn net.PacketConn
	// Log may be nil.
	Log *slog.Logger
	// Congestion makes the controller of a connection that has just finished its
	// handshake. Nil keeps QUIC's own, which neither counts losses nor notices that a
	// path's MTU has shrunk.
	Congestion func() congestion.CongestionControlEx
}

// Stats counts the events that unauthenticated callers caused on a Transport.
type Stats struct {
	// Refused counts the packets that would have begun a connection and found no
	// free place; one try may be several.
	Refused uint64
	// FailedHellos had a handshake, but said nothing that we understand after it.
	FailedHellos uint64
}

// Transport dials and accepts on one PacketConn. Make it with [New]; all
// methods may be called concurrently.
type Transport struct {
	cfg      Config
	log      *slog.Logger
	limits   limits
	quic     *quic.Transport
	ctx      context.Context //nolint:containedctx // the Transport's own life: it ends with Close
	cancel   context.CancelCauseFunc
	accepted chan *Conn
	limiter  connLimiter
	hellos   atomic.Uint64 // that failed

	mu       sync.Mutex
	listener *quic.Listener // nil before Listen; guarded by mu
	closed   bool           // guarded by mu
	wg       sync.WaitGroup
}

// New makes a Transport. It reads nothing before [Transport.Listen] or
// [Transport.Dial].
func New(c Config) *Transport { return newTransport(c, limits{}) }

func newTransport(c Config, l limits) *Transport {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	l = l.withDefaults()
	ctx, cancel := context.WithCancelCause(context.Background())
	t := &Transport{
		cfg: c, log: c.Log, limits: l,
		ctx: ctx, cancel: cancel,
		accepted: make(chan *Conn),
		limiter:  connLimiter{all: l.handshakes, source: l.sourceHandshakes, bySource: make(map[string]int)},
	}
	t.quic = &quic.Transport{
		Conn:               c.Conn,
		ConnectionIDLength: connIDLength,
		// Both sides know the single version.
		DisableVersionNegotiationPackets: true,
		ConnContext:                      t.limiter.admit,
	}
	return t
}

// Dial connects to another Transport and opens the first stream. It takes at most 10 s,
// or as long as ctx lives. A far side may still reject our certificate after a success:
// its greeting on [Conn.First] is the proof of acceptance.
func (t *Transport) Dial(ctx context.Context, to net.Addr, tlsClient *tls.Config) (*Conn, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, fmt.Errorf("dial %v: %w", to, context.Cause(t.ctx)) //nolint:contextcheck // why the Transport ended
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.limits.handshakeTime, errHandshakeTime)
	defer cancel()
	raw, err := t.quic.Dial(ctx, to, strict(tlsClient), t.limits.quicConfig())
	if err != nil {
		return nil, fmt.Errorf("dial %v: %w", to, err)
	}
	first, err := raw.OpenStream()
	if err == nil {
		_, err = first.Write(frame.AppendHello(nil))
	}
	if err != nil {
		_ = raw.CloseWithError(codeHello, "no first stream")
		return nil, fmt.Errorf("dial %v: open first stream: %w", to, err)
	}
	return t.newConn(raw, first, true), nil
}

// newConn takes charge of a connection past its handshake.
func (t *Transport) newConn(raw *quic.Conn, first *quic.Stream, dialer bool) *Conn {
	c := &Conn{transport: t, raw: raw, first: first, dialer: dialer}
	if t.cfg.Congestion != nil {
		c.sizes = watchSizes(t.cfg.Congestion())
		raw.SetCongestionControl(c.sizes)
	}
	return c
}

// Stats may be called at any time.
func (t *Transport) Stats() Stats {
	return Stats{Refused: t.limiter.refused.Load(), FailedHellos: t.hellos.Load()}
}

// Close ends every connection without a message to its far side. Close Sessions with a
// reason before.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	ln := t.listener
	t.mu.Unlock()
	t.cancel(ErrTransportClosed)
	var err error
	if ln != nil {
		err = ln.Close()
	}
	t.wg.Wait()
	if err := errors.Join(err, t.quic.Close()); err != nil {
		return fmt.Errorf("close transport: %w", err)
	}
	return nil
}
