package overlay

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// splicer is a TLS pass-through gateway that routes by server name.
type splicer struct {
	ln net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex
	routes map[string]string
	conns  map[net.Conn]struct{}
}

func newSplicer(t testing.TB) *splicer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &splicer{ln: ln, routes: make(map[string]string), conns: make(map[net.Conn]struct{})}
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
		ln.Close()
		g.kill()
		g.wg.Wait()
	})
	return g
}

func (g *splicer) gateway() Gateway {
	return Gateway{Domain: "gw.test", Address: g.ln.Addr().String()}
}

func (g *splicer) route(instance, addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.routes[g.gateway().Name(instance)] = addr
}

// kill resets every connection that runs through the gateway.
func (g *splicer) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

func (g *splicer) track(c net.Conn) func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[c] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.conns, c)
		c.Close()
	}
}

func (g *splicer) splice(conn net.Conn) {
	defer g.track(conn)()
	var head bytes.Buffer
	name := ""
	_ = tls.Server(readOnly{io.TeeReader(conn, &head)}, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name = h.ServerName
			return nil, errors.New("seen enough")
		},
	}).Handshake()
	g.mu.Lock()
	addr, ok := g.routes[name]
	g.mu.Unlock()
	if !ok {
		return
	}
	back, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer g.track(back)()
	if _, err := back.Write(head.Bytes()); err != nil {
		return
	}
	var wg sync.WaitGroup
	pass := func(dst, src net.Conn) {
		_, err := io.Copy(dst, src)
		if err != nil {
			src.Close()
			dst.Close()
			return
		}
		_ = dst.(*net.TCPConn).CloseWrite()
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
