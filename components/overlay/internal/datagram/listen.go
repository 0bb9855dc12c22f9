package datagram

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"cadre.dev/overlay/internal/frame"
	quic "github.com/apernet/quic-go"
)

// errHelloTime ends a connection whose dialer stays silent.
var errHelloTime = errors.New("first stream took too long")

// Listen begins to accept connections. Call it once. The configuration decides which
// callers to accept; session tickets are always off.
func (t *Transport) Listen(tlsServer *tls.Config) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fmt.Errorf("listen: %w", ErrTransportClosed)
	}
	if t.listener != nil {
		return errors.New("listen: transport listens already")
	}
	ln, err := t.quic.Listen(strict(tlsServer), t.limits.quicConfig())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	t.listener = ln
	t.wg.Go(func() { t.accept(ln) })
	return nil
}

// Accept waits for a connection that has finished its TLS handshake and has received its
// first stream.
func (t *Transport) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-t.accepted:
		return c, nil
	case <-t.ctx.Done():
		return nil, fmt.Errorf("accept connection: %w", context.Cause(t.ctx)) //nolint:contextcheck // why the Transport ended
	case <-ctx.Done():
		return nil, fmt.Errorf("accept connection: %w", context.Cause(ctx))
	}
}

func (t *Transport) accept(ln *quic.Listener) {
	for {
		raw, err := ln.Accept(t.ctx)
		if err != nil {
			// Nothing but the end of the PacketConn or of the Transport.
			t.cancel(fmt.Errorf("%w: %w", ErrTransportClosed, err))
			return
		}
		t.wg.Go(func() { t.welcome(raw) })
	}
}

// welcome takes a connection from its handshake to the caller of Accept.
func (t *Transport) welcome(raw *quic.Conn) {
	c, err := t.hear(raw)
	if err != nil {
		t.hellos.Add(1)
		t.log.Debug("connection without a first stream", "error", err)
		_ = raw.CloseWithError(codeHello, bounded(err.Error()))
		return
	}
	select {
	case t.accepted <- c:
		t.limiter.leave(raw.Context())
	case <-raw.Context().Done():
	case <-t.ctx.Done():
		_ = raw.CloseWithError(codeClosed, ErrTransportClosed.Error())
	}
}

// hear waits for the first stream.
func (t *Transport) hear(raw *quic.Conn) (*Conn, error) {
	ctx, cancel := context.WithTimeoutCause(t.ctx, t.limits.helloTime, errHelloTime)
	defer cancel()
	first, err := raw.AcceptStream(ctx)
	if err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	defer context.AfterFunc(ctx, func() { first.CancelRead(codeReset) })()
	if err := frame.ReadHello(first); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return t.newConn(raw, first, false), nil
}
