package overlay

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cadre.dev/overlay/internal/identity/identitytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testCluster = "test.cadre"

// authority is a cluster CA.
type authority struct{ *identitytest.Authority }

func newAuthority(t testing.TB) *authority {
	t.Helper()
	return &authority{identitytest.NewAuthority(t, testCluster)}
}

// issue makes an SVID for the names given; change may spoil the template.
func (a *authority) issue(t testing.TB, names []string, change ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	var uris []*url.URL
	for _, n := range names {
		u, err := url.Parse(n)
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, u)
	}
	named := func(c *x509.Certificate) { c.URIs = uris }
	return a.Issue(t, a.ID("test", "named-below"), append([]func(*x509.Certificate){named}, change...)...)
}

// bootCert is the certificate of an unadmitted Boot.
func bootCert(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "boot"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// testNode is a Node with its place in the world.
type testNode struct {
	*Node
	id       ID
	net      byte // third byte of every VIP on its loopback
	host     byte // fourth byte of its own VIP
	cert     tls.Certificate
	instance string
	stop     func()
}

// world is one cluster on this machine's loopback. Each node has a /24 of its
// own, in which its peers and itself have VIPs: no two nodes share an address.
type world struct {
	t  testing.TB
	ca *authority
	gw *splicer
}

var nextNet = firstNet()

// firstNet differs from run to run: connections of the run before wait in the kernel for a
// minute, at the addresses that nodes listen at.
func firstNet() *atomic.Int32 {
	first := &atomic.Int32{}
	first.Store(mathrand.Int32N(200))
	return first
}

func newWorld(t testing.TB) *world {
	return &world{t: t, ca: newAuthority(t), gw: newSplicer(t)}
}

func testLog() *slog.Logger {
	if os.Getenv("OVERLAY_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// node starts a node named group/slot. host is its VIP's last byte.
func (w *world) node(group, slot string, host byte, change ...func(*Config)) *testNode {
	w.t.Helper()
	n := &testNode{
		id:   ID{Cluster: testCluster, Group: group, Slot: slot},
		host: host, net: byte(nextNet.Add(1)), instance: "inst-" + slot,
	}
	n.cert = w.ca.issue(w.t, []string{n.id.String()})
	w.start(n, change...)
	return n
}

// start runs n, as a new Boot if it ran before.
func (w *world) start(n *testNode, change ...func(*Config)) {
	w.t.Helper()
	cfg := Config{Self: n.id, SelfVIP: n.vip(n), Listen: "127.0.0.1:0", Gateway: w.gw.gateway()}
	if log := testLog(); log != nil {
		cfg.Log = log.With("self", n.id.Slot)
	}
	for _, c := range change {
		c(&cfg)
	}
	node, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	n.Node = node
	node.SetCredentials(Credentials{Certificate: n.cert, Roots: w.ca.Pool})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run %s: %v", n.id.Slot, err)
		}
	})
	w.t.Cleanup(n.stop)
	eventually(w.t, "listening", func() bool { return node.ListenAddr() != nil })
	w.gw.route(n.instance, node.ListenAddr().String())
}

// vip is where other is seen on n's loopback.
func (n *testNode) vip(other *testNode) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 50, n.net, other.host})
}

func (n *testNode) bootID() string { return BootID(n.cert.Leaf) }

// sees is the map entry for other at n.
func (n *testNode) sees(other *testNode, offers, accepts []PortRef) Peer {
	return Peer{
		ID: other.id, BootID: other.bootID(), InstanceID: other.instance, VIP: n.vip(other),
		Offers: offers, Accepts: accepts, Coordinator: other.id.Group == CoordinatorGroup,
	}
}

// connect makes a and b peers: b serves ports to a, and the other way round.
func connect(a, b *testNode, ofB, ofA []PortRef) {
	a.SetPeers([]Peer{a.sees(b, ofB, ofA)})
	b.SetPeers([]Peer{b.sees(a, ofA, ofB)})
}

// session waits for a live Session of n with other.
func (n *testNode) session(t testing.TB, other *testNode) SessionInfo {
	t.Helper()
	var got SessionInfo
	eventually(t, fmt.Sprintf("session of %s with %s", n.id.Slot, other.id.Slot), func() bool {
		for _, s := range n.Sessions() {
			if s.Peer == other.id && s.State == SessionUp {
				got = s
				return true
			}
		}
		return false
	})
	return got
}

// listen opens a workload's port on n's own VIP.
func (n *testNode) listen(t testing.TB) (*net.TCPListener, uint16) {
	t.Helper()
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(n.vip(n), 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln, uint16(ln.Addr().(*net.TCPAddr).Port)
}

// dial connects to a port of other as an app on n would.
func (n *testNode) dial(t testing.TB, other *testNode, port uint16) *net.TCPConn {
	t.Helper()
	var conn net.Conn
	eventually(t, fmt.Sprintf("listener for port %d", port), func() bool {
		var err error
		conn, err = net.Dial("tcp", netip.AddrPortFrom(n.vip(other), port).String())
		return err == nil
	})
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn.(*net.TCPConn)
}

func tcpPort(p uint16) []PortRef { return []PortRef{{Protocol: TCP, Port: p}} }
func udpPort(p uint16) []PortRef { return []PortRef{{Protocol: UDP, Port: p}} }

// eventually waits for a condition that nothing signals.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(15 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited too long for: %s", what)
		}
	}
}

// serveEach runs f for each connection to ln until the test ends.
func serveEach(t testing.TB, ln net.Listener, f func(*net.TCPConn)) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				f(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
}

// echo returns the received bytes, and half-closes when the caller does.
func echo(c *net.TCPConn) {
	if _, err := io.Copy(c, c); err == nil {
		_ = c.CloseWrite()
	}
}
