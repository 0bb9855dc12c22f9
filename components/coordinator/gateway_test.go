package coordinator_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
)

// gateway passes TLS through by server name.
type gateway struct {
	listener net.Listener
	mu       sync.Mutex
	routes   map[string]string // guarded by mu
}

func newGateway(t *testing.T) *gateway {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{listener: listener, routes: map[string]string{}}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go g.pass(conn)
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return g
}

func (g *gateway) address() string { return g.listener.Addr().String() }

func (g *gateway) route(name, to string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.routes[name] = to
}

// tape keeps what was read and swallows what is written.
type tape struct {
	net.Conn
	read bytes.Buffer
}

func (p *tape) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.read.Write(b[:n])
	return n, err
}

func (p *tape) Write(b []byte) (int, error) { return len(b), nil }

func (g *gateway) pass(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	recorder, name := &tape{Conn: conn}, ""
	_ = tls.Server(recorder, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name = hello.ServerName
		return nil, io.EOF
	}}).Handshake()
	g.mu.Lock()
	to := g.routes[name]
	g.mu.Unlock()
	onward, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = onward.Close() }()
	_, _ = onward.Write(recorder.read.Bytes())
	go func() { _, _ = io.Copy(onward, conn); _ = onward.Close() }()
	_, _ = io.Copy(conn, onward)
}
