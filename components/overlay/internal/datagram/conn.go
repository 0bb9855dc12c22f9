package datagram

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/carrier"
	quic "github.com/apernet/quic-go"
	"github.com/hashicorp/yamux"
)

// errSessionMade reports a second Session on one connection.
var errSessionMade = errors.New("connection has a session already")

// Conn is a connection past its handshake that is not a Session yet. The owner must make
// it a Session or close it.
type Conn struct {
	transport *Transport
	raw       *quic.Conn
	first     *quic.Stream
	dialer    bool
	sizes     *sizes // nil with the stock congestion controller
	// spoke: this side has written on the first stream, and the far side may not have
	// read all of it.
	spoke atomic.Bool

	mu      sync.Mutex
	session *session // guarded by mu
}

// ConnectionState describes the TLS connection, with the far side's certificate.
func (c *Conn) ConnectionState() tls.ConnectionState { return c.raw.ConnectionState().TLS }

// RemoteAddr is where the PacketConn says that the far side is.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// First is the first stream, up to the moment that the Session begins: the
// acceptor writes its greeting here, the dialer reads it. Closing the Conn ends
// blocked calls.
func (c *Conn) First() io.ReadWriter { return firstStream{c} }

type firstStream struct{ c *Conn }

func (f firstStream) Read(b []byte) (int, error) {
	n, err := f.c.first.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = describe(err)
	}
	return n, err
}

func (f firstStream) Write(b []byte) (int, error) {
	f.c.spoke.Store(true)
	n, err := f.c.first.Write(b)
	if err != nil {
		err = describe(err)
	}
	return n, err
}

// Client makes the dialer's side of a Session, once the greeting has been read.
// On error the Conn is closed.
func (c *Conn) Client(ctx context.Context, log *slog.Logger) (carrier.Session, error) {
	return c.begin(ctx, log, yamux.Client)
}

// Server makes the acceptor's side, as [Conn.Client] makes the dialer's.
func (c *Conn) Server(ctx context.Context, log *slog.Logger) (carrier.Session, error) {
	return c.begin(ctx, log, yamux.Server)
}

func (c *Conn) begin(ctx context.Context, log *slog.Logger, side muxSide) (carrier.Session, error) {
	if log == nil {
		log = c.transport.log
	}
	s, err := c.makeSession(ctx, log, side)
	if errors.Is(err, errSessionMade) {
		return nil, fmt.Errorf("make session: %w", err)
	}
	if err != nil {
		c.spoke.Store(false) // no reader of the first stream is left
		c.Close(err)
		return nil, fmt.Errorf("make session: %w", err)
	}
	return s, nil
}

func (c *Conn) makeSession(ctx context.Context, log *slog.Logger, side muxSide) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != nil {
		return nil, errSessionMade
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if c.raw.Context().Err() != nil {
		return nil, describe(context.Cause(c.raw.Context())) //nolint:contextcheck // why the connection ended
	}
	if !c.raw.ConnectionState().SupportsDatagrams {
		return nil, errors.New("peer takes no datagrams")
	}
	c.session = newSession(c, log, side) //nolint:contextcheck // it outlives ctx, which bounds the making
	return c.session, nil
}

// Close ends the connection, and the Session if it has become one. The far side gets the
// reason. An acceptor that has written on [Conn.First] and made no Session waits up to 2
// s. In that time the dialer can read the answer and hang up: the end of a connection
// overtakes data on its way.
func (c *Conn) Close(reason error) {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s != nil {
		s.Close(reason)
		return
	}
	if !c.dialer && c.spoke.Load() {
		_ = c.first.Close()
		linger := time.NewTimer(c.transport.limits.linger)
		defer linger.Stop()
		select {
		case <-c.raw.Context().Done():
		case <-c.transport.ctx.Done():
		case <-linger.C:
		}
	}
	_ = c.raw.CloseWithError(codeClosed, bounded(text(reason)))
}
