package labtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"

	"cadre.dev/overlay"
)

// router is the address of the lab's internet itself, where the gateway is.
var router = netip.AddrFrom4([4]byte{198, 51, 100, 1})

const gatewayDomain = "gw.test"

// gateway passes TLS through by server name, as a platform's does. It reaches every
// node by its private address, past all NATs.
type gateway struct {
	w  *world
	ln net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// gatewayUp starts the gateway; nodes that run later use it.
func (w *world) gatewayUp() *gateway {
	w.t.Helper()
	g := &gateway{w: w, conns: map[net.Conn]struct{}{}}
	var lc net.ListenConfig
	err := w.lab.Inside(func() (err error) {
		g.ln, err = lc.Listen(context.Background(), "tcp4", router.String()+":443")
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.gateway = g.ln.Addr().String()
	g.wg.Go(func() {
		for {
			conn, err := g.ln.Accept()
			if err != nil {
				return
			}
			g.wg.Go(func() { g.splice(conn) })
		}
	})
	w.t.Cleanup(g.close)
	return g
}

func (g *gateway) close() {
	_ = g.ln.Close()
	g.mu.Lock()
	for c := range g.conns {
		_ = c.Close()
	}
	g.mu.Unlock()
	g.wg.Wait()
}

func (g *gateway) track(c net.Conn) func() {
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

// address is where the machine of a routed name listens.
func (g *gateway) address(name string) (string, bool) {
	for _, n := range g.w.nodes {
		if (overlay.Gateway{Domain: gatewayDomain}).Name(n.slot) == name {
			return fmt.Sprintf("%s:%d", n.host.Addr(), n.listen), true
		}
	}
	return "", false
}

func (g *gateway) splice(conn net.Conn) {
	defer g.track(conn)()
	var head bytes.Buffer
	name := ""
	// The handshake always fails: only the hello is wanted.
	_ = tls.Server(readOnly{Reader: io.TeeReader(conn, &head)}, &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name = h.ServerName
			return nil, errors.New("seen enough")
		},
	}).HandshakeContext(context.Background())
	address, ok := g.address(name)
	if !ok {
		return
	}
	var back net.Conn
	err := g.w.lab.Inside(func() (err error) {
		back, err = (&net.Dialer{}).DialContext(context.Background(), "tcp4", address)
		return err
	})
	if err != nil {
		return
	}
	defer g.track(back)()
	if _, err := back.Write(head.Bytes()); err != nil {
		return
	}
	var wg sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		_ = from.Close()
	}
	wg.Go(func() { pass(back, conn) })
	pass(conn, back)
	wg.Wait()
}

// readOnly lets a TLS server read a hello and say nothing.
type readOnly struct {
	net.Conn
	io.Reader
}

func (r readOnly) Read(b []byte) (int, error)  { return r.Reader.Read(b) }
func (r readOnly) Write(b []byte) (int, error) { return 0, io.ErrClosedPipe }
