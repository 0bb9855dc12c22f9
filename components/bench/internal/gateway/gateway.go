// Package gateway passes TLS connections through by server name, as a platform's gateway
// does: it looks at the first message and ends no TLS.
package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// helloTime is how long a connection may take to name where it wants to go.
const helloTime = 10 * time.Second

// Gateway is one. Its methods may be called concurrently.
type Gateway struct {
	listener net.Listener
	served   sync.WaitGroup

	mu     sync.Mutex
	routes map[string][]string   // guarded by mu
	conns  map[net.Conn]struct{} // guarded by mu
	closed bool                  // guarded by mu
}

// New serves on listener. The caller must Close it.
func New(listener net.Listener) *Gateway {
	g := &Gateway{listener: listener, routes: map[string][]string{}, conns: map[net.Conn]struct{}{}}
	g.served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			g.served.Go(func() { g.pass(conn) })
		}
	})
	return g
}

// Address is where it listens, host:port.
func (g *Gateway) Address() string { return g.listener.Addr().String() }

// Route sends connections with a server name to one of the addresses; none: nowhere.
func (g *Gateway) Route(serverName string, addresses ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(addresses) == 0 {
		delete(g.routes, serverName)
		return
	}
	g.routes[serverName] = addresses
}

// Close ends all that passes and waits.
func (g *Gateway) Close() {
	_ = g.listener.Close()
	g.mu.Lock()
	g.closed = true
	for c := range g.conns {
		_ = c.Close()
	}
	g.mu.Unlock()
	g.served.Wait()
}

func (g *Gateway) track(c net.Conn) (untrack func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		_ = c.Close()
	}
	g.conns[c] = struct{}{}
	return func() {
		_ = c.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.conns, c)
	}
}

func (g *Gateway) pass(front net.Conn) {
	defer g.track(front)()
	name, head := hello(front)
	g.mu.Lock()
	there := g.routes[name]
	g.mu.Unlock()
	if len(there) == 0 {
		return
	}
	// Like a gateway with health checks: the next backend when one does not answer.
	var back net.Conn
	for _, i := range rand.Perm(len(there)) {
		var err error
		if back, err = (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", there[i]); err == nil {
			break
		}
	}
	if back == nil {
		return
	}
	defer g.track(back)()
	if _, err := back.Write(head); err != nil {
		return
	}
	var up sync.WaitGroup
	up.Go(func() { oneWay(back, front) })
	oneWay(front, back)
	up.Wait()
}

// copySize is small: tens of thousands of connections that say little pass here. A copy
// inside the kernel would hold a pipe, two files, for each way of each.
const copySize = 2 << 10

// oneWay copies and passes the end on; an error ends both directions.
func oneWay(to, from net.Conn) {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, copySize))
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
	_ = from.Close()
}

// hello reads the first message: the name in it, and all that was read.
func hello(conn net.Conn) (name string, head []byte) {
	_ = conn.SetReadDeadline(time.Now().Add(helloTime))
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	var read bytes.Buffer
	// The handshake always fails: only the hello is wanted.
	_ = tls.Server(deaf{Conn: conn, reader: io.TeeReader(conn, &read)}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name = h.ServerName
			return nil, errSeen
		},
	}).HandshakeContext(context.Background())
	return name, read.Bytes()
}

var errSeen = errors.New("seen enough")

// deaf lets nothing out.
type deaf struct {
	net.Conn
	reader io.Reader
}

func (d deaf) Read(b []byte) (int, error)  { return d.reader.Read(b) }
func (d deaf) Write(b []byte) (int, error) { return len(b), nil }
func (d deaf) Close() error                { return nil }
