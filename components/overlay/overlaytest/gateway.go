// Package overlaytest has helpers for tests of Sessions.
package overlaytest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Gateway passes TLS connections through by server name, as a platform's does.
// Its methods may be called concurrently.
type Gateway struct {
	ln net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex
	routes map[string]string     // guarded by mu
	conns  map[net.Conn]struct{} // guarded by mu
	paused chan struct{}         // guarded by mu; open while nothing passes
}

// NewGateway serves on a free port of loopback until the test ends.
func NewGateway(t testing.TB) *Gateway {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{ln: ln, routes: map[string]string{}, conns: map[net.Conn]struct{}{}}
	g.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			g.wg.Go(func() { g.splice(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		g.Cut()
		g.wg.Wait()
	})
	return g
}

// Address is where the gateway listens.
func (g *Gateway) Address() string { return g.ln.Addr().String() }

// Route sends connections with a server name to address.
func (g *Gateway) Route(serverName, address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.routes[serverName] = address
}

// Pause keeps connections open and passes nothing on any more, until Cut.
func (g *Gateway) Pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused == nil {
		g.paused = make(chan struct{})
	}
}

// pausedReader is a side of a connection from which nothing comes while the gateway is paused.
type pausedReader struct {
	net.Conn
	gateway *Gateway
}

func (r pausedReader) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.gateway.mu.Lock()
	paused := r.gateway.paused
	r.gateway.mu.Unlock()
	if paused != nil {
		<-paused
	}
	return n, err
}

// Cut resets every connection that runs through the gateway.
func (g *Gateway) Cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused != nil {
		close(g.paused)
		g.paused = nil
	}
	for c := range g.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

func (g *Gateway) track(c net.Conn) func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[c] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.conns, c)
		_ = c.Close()
	}
}

func (g *Gateway) splice(conn net.Conn) {
	defer g.track(conn)()
	var head bytes.Buffer
	name := ""
	// The handshake always fails: only the hello is wanted.
	_ = tls.Server(readOnly{io.TeeReader(conn, &head)}, &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name = h.ServerName
			return nil, errors.New("seen enough")
		},
	}).HandshakeContext(context.Background())
	g.mu.Lock()
	address, ok := g.routes[name]
	g.mu.Unlock()
	if !ok {
		return
	}
	back, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return
	}
	defer g.track(back)()
	if _, err := back.Write(head.Bytes()); err != nil {
		return
	}
	var wg sync.WaitGroup
	pass := func(to, from net.Conn) {
		if _, err := io.Copy(to, pausedReader{from, g}); err != nil {
			_ = from.Close()
			_ = to.Close()
			return
		}
		_ = to.(*net.TCPConn).CloseWrite()
	}
	wg.Go(func() { pass(back, conn) })
	pass(conn, back)
	wg.Wait()
}

// readOnly lets a TLS server read a hello and say nothing.
type readOnly struct{ io.Reader }

func (readOnly) Write([]byte) (int, error)        { return 0, io.ErrClosedPipe }
func (readOnly) Close() error                     { return nil }
func (readOnly) LocalAddr() net.Addr              { return nil }
func (readOnly) RemoteAddr() net.Addr             { return nil }
func (readOnly) SetDeadline(time.Time) error      { return nil }
func (readOnly) SetReadDeadline(time.Time) error  { return nil }
func (readOnly) SetWriteDeadline(time.Time) error { return nil }
