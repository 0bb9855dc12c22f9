package datagram

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/identity/identitytest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testCluster = "test.cadre"

// authority is a cluster CA.
type authority struct{ *identitytest.Authority }

func newAuthority(t testing.TB) *authority {
	t.Helper()
	return &authority{identitytest.NewAuthority(t, testCluster)}
}

// issue makes the SVID of a slot.
func (a *authority) issue(t testing.TB, slot string) tls.Certificate {
	t.Helper()
	return a.Issue(t, peerID(slot))
}

func peerID(slot string) identity.ID {
	return identity.ID{Cluster: testCluster, Group: "db", Slot: slot}
}

// node is a Transport on a socket of its own.
type node struct {
	*Transport
	ca   *authority
	cert tls.Certificate
	conn *net.UDPConn
}

func newNode(t testing.TB, ca *authority, slot string, l limits) *node {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	return nodeOn(t, ca, slot, l, conn)
}

func nodeOn(t testing.TB, ca *authority, slot string, l limits, conn *net.UDPConn) *node {
	t.Helper()
	n := &node{
		Transport: newTransport(Config{Conn: conn}, l),
		ca:        ca, cert: ca.issue(t, slot), conn: conn,
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		conn.Close()
	})
	if err := n.Listen(n.serverTLS()); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) serverTLS() *tls.Config {
	return identity.ServerConfig(func(alpn string) (*tls.Config, error) {
		if alpn != identity.ALPNOverlay {
			return nil, identity.ErrALPN
		}
		return identity.OverlayServer(n.cert, n.ca.Pool, testCluster), nil
	})
}

func (n *node) clientTLS(slot string) *tls.Config {
	return identity.OverlayClient(n.cert, n.ca.Pool, "", peerID(slot), "")
}

func (n *node) addr() net.Addr { return n.conn.LocalAddr() }

// testContext ends before anybody loses patience.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// connect makes a Session from a to b at an address.
func connect(t testing.TB, a, b *node, slot string, at net.Addr) (dialer, acceptor *session) {
	t.Helper()
	ctx := testContext(t)
	type result struct {
		s   carrier.Session
		err error
	}
	accepted := make(chan result, 1)
	go func() {
		c, err := b.Accept(ctx)
		if err != nil {
			accepted <- result{nil, err}
			return
		}
		if _, err = identity.Verify(c.ConnectionState(), b.ca.Pool, testCluster, x509.ExtKeyUsageClientAuth); err == nil {
			_, err = c.First().Write(frame.AppendGreeting(nil, frame.Accepted))
		}
		var s carrier.Session
		if err == nil {
			s, err = c.Server(ctx, nil)
		}
		accepted <- result{s, err}
	}()
	c, err := a.Dial(ctx, at, a.clientTLS(slot))
	if err != nil {
		t.Fatal(err)
	}
	code, err := frame.ReadGreeting(c.First())
	if err != nil || code != frame.Accepted {
		t.Fatalf("greeting %v, error %v", code, err)
	}
	near, err := c.Client(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	far := <-accepted
	if far.err != nil {
		t.Fatal(far.err)
	}
	t.Cleanup(func() {
		for _, s := range []carrier.Session{near, far.s} {
			s.Close(errors.New("test is over"))
			s.Wait()
		}
	})
	return near.(*session), far.s.(*session)
}

// pair makes two nodes and a Session between them.
func pair(t testing.TB, l limits) (dialer, acceptor *session) {
	t.Helper()
	ca := newAuthority(t)
	a, b := newNode(t, ca, "a", l), newNode(t, ca, "b", l)
	return connect(t, a, b, "b", b.addr())
}

// eventually waits for a condition that nothing signals.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited too long for: %s", what)
		}
	}
}
