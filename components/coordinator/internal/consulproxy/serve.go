package consulproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of one connection.
const (
	headerLimit = 10 * time.Second
	idleLimit   = 5 * time.Minute
	maxHeader   = 16 << 10
	// maxStreams is more than the maximum of a member's open requests.
	maxStreams = 128
	// stopLimit bounds how long the shutdown of the Proxy waits for open answers.
	stopLimit = time.Second
)

// Run serves the connections from Serve until ctx ends.
func (d *Proxy) Run(ctx context.Context) error {
	defer close(d.ended)
	defer d.consul.CloseIdleConnections()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, ok := r.Context().Value(callerKey{}).(Caller)
			if !ok {
				refuse(w, &Refusal{http.StatusForbidden, CodeNotAdmitted, "the request did not come over an overlay session"})
				return
			}
			d.serve(w, r, c)
		}),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if one, ok := conn.(*memberConn); ok {
				return context.WithValue(ctx, callerKey{}, one.caller)
			}
			return ctx
		},
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerLimit, IdleTimeout: idleLimit, MaxHeaderBytes: maxHeader, Protocols: &protocols,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10, WriteByteTimeout: writeLimit},
	}
	listener := &handedOver{proxy: d, closed: make(chan struct{})}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(listener) }()
	select {
	case err := <-stopped:
		return fmt.Errorf("serve members: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		_ = server.Close()
	}
	if err := <-stopped; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve members: %w", err)
	}
	return nil
}

// Serve serves one connection of a member until it, ctx or the Proxy ends. Serve owns conn. Serve
// closes the connection of a Peer that has too many. Safe for concurrent use.
func (d *Proxy) Serve(ctx context.Context, c Caller, conn net.Conn) {
	done, ok := d.shares.conn(c.Slot)
	if !ok {
		d.cfg.Log.Debug("connection to the Consul proxy refused: too many connections", "slot", c.Slot)
		d.hold(ctx)
		_ = conn.Close()
		return
	}
	defer done()
	one := &memberConn{Conn: conn, caller: c, gone: make(chan struct{})}
	defer func() { _ = one.Close() }()
	select {
	case d.conns <- one:
	case <-ctx.Done():
		return
	case <-d.ended:
		return
	}
	select {
	case <-one.gone:
	case <-ctx.Done():
	case <-d.ended:
	}
}

type callerKey struct{}

// memberConn is a connection with its authenticated caller.
type memberConn struct {
	net.Conn
	caller Caller
	once   sync.Once
	gone   chan struct{}
}

// Close implements net.Conn.
func (c *memberConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		err = c.Conn.Close()
		close(c.gone)
	})
	return err
}

// handedOver is a listener for connections that were already accepted.
type handedOver struct {
	proxy  *Proxy
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *handedOver) Accept() (net.Conn, error) {
	select {
	case conn := <-l.proxy.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *handedOver) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *handedOver) Addr() net.Addr { return proxyAddr{} }

type proxyAddr struct{}

// Network implements net.Addr.
func (proxyAddr) Network() string { return "overlay" }

// String implements net.Addr.
func (proxyAddr) String() string { return "consul proxy" }
