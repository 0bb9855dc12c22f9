package underlay

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	quic "github.com/apernet/quic-go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = netip.MustParseAddr("127.0.0.1")

// open gives a Socket on the loopback that ends with the test.
func open(tb testing.TB) *Socket {
	tb.Helper()
	s, err := Open(tb.Context(), Config{Listen: netip.AddrPortFrom(loopback, 0), Log: testLog(tb)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

func testLog(tb testing.TB) *slog.Logger {
	if !testing.Verbose() {
		return nil
	}
	return slog.New(slog.NewTextHandler(tb.Output(), nil))
}

func at(s *Socket) netip.AddrPort { return s.LocalAddr().AddrPort() }

func secret(n byte) (k [32]byte) {
	for i := range k {
		k[i] = n
	}
	return k
}

// twoLinks gives a Link each way, without paths.
func twoLinks(tb testing.TB) (a, b *Link) {
	tb.Helper()
	return open(tb).NewLink("b"), open(tb).NewLink("a")
}

// joined are two Links with one direct path.
func joined(tb testing.TB) (a, b *Link) {
	tb.Helper()
	a, b = twoLinks(tb)
	join(a, b, "one", at(b.s), at(a.s))
	waitFor(tb, "a path", func() bool { return up(a) && up(b) })
	return a, b
}

// join adds a path to both: seen from a the Peer is at toB.
func join(a, b *Link, search string, toB, toA netip.AddrPort) {
	key := secret(search[0])
	a.Add(Path{Search: search, Kind: Direct, Remote: toB, Key: key, Initiator: true})
	b.Add(Path{Search: search, Kind: Direct, Remote: toA, Key: key})
}

func up(l *Link) bool { return l.out.Load() != nil }

// waitFor polls, since the condition becomes true in other goroutines.
func waitFor(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline:
			tb.Fatalf("no %s", what)
		case <-tick.C:
		}
	}
}

var followers sync.Map // *Link to chan Event

// followed returns the Events of a Link.
func followed(l *Link) <-chan Event {
	to, begun := followers.LoadOrStore(l, make(chan Event, 1024))
	if !begun {
		l.Follow(func(e Event) { to.(chan Event) <- e })
	}
	return to.(chan Event)
}

// waitEvent reads events until one of the kind comes.
func waitEvent(tb testing.TB, l *Link, kind EventKind) Event {
	tb.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case e := <-followed(l):
			if e.Kind == kind {
				return e
			}
		case <-deadline:
			tb.Fatalf("no event %q; paths %+v", kind, l.Paths())
		}
	}
}

var testTLS = sync.OnceValues(func() (*tls.Config, *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"peer.test"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	server := &tls.Config{NextProtos: []string{"t"}, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return server, &tls.Config{NextProtos: []string{"t"}, RootCAs: roots, ServerName: "peer.test"}
})

func quicConfig() *quic.Config {
	return &quic.Config{
		InitialStreamReceiveWindow: 4 << 20, MaxStreamReceiveWindow: 16 << 20,
		InitialConnectionReceiveWindow: 6 << 20, MaxConnectionReceiveWindow: 24 << 20,
		InitialPacketSize: 1200, MaxIdleTimeout: 30 * time.Second,
	}
}

// quicPair connects two packet connections and gives a stream's two ends.
func quicPair(tb testing.TB, near, far net.PacketConn, to net.Addr) (io.ReadWriteCloser, io.ReadWriteCloser) {
	tb.Helper()
	server, client := testTLS()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	ta, tb2 := &quic.Transport{Conn: near}, &quic.Transport{Conn: far}
	ln, err := tb2.Listen(server, quicConfig())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ln.Close(); _ = ta.Close(); _ = tb2.Close() })
	type side struct {
		s   *quic.Stream
		err error
	}
	accepted := make(chan side, 1)
	go func() {
		c, err := ln.Accept(ctx)
		if err != nil {
			accepted <- side{err: err}
			return
		}
		s, err := c.AcceptStream(ctx)
		accepted <- side{s, err}
	}()
	c, err := ta.Dial(ctx, to, client, quicConfig())
	if err != nil {
		tb.Fatal(err)
	}
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := s.Write([]byte{1}); err != nil {
		tb.Fatal(err)
	}
	other := <-accepted
	if other.err != nil {
		tb.Fatal(other.err)
	}
	if _, err := io.ReadFull(other.s, make([]byte, 1)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.CloseWithError(0, "") })
	return s, other.s
}

// box is a middlebox: senders to its near side are b's peers, and the box sends to b from
// its far side.
type box struct {
	near  *net.UDPConn
	far   atomic.Pointer[net.UDPConn]
	a, b  *net.UDPAddr
	dark  atomic.Bool // drops everything
	mute  atomic.Bool // drops datagrams from b to a
	wg    sync.WaitGroup
	moves []*net.UDPConn
}

func newBox(tb testing.TB, a, b *Socket) *box {
	tb.Helper()
	x := &box{near: udp(tb), a: a.LocalAddr(), b: b.LocalAddr()}
	x.move(tb)
	x.wg.Go(func() { x.pump(x.near, func(p []byte) { _, _ = x.far.Load().WriteToUDP(p, x.b) }, nil) })
	tb.Cleanup(func() {
		_ = x.near.Close()
		for _, c := range x.moves {
			_ = c.Close()
		}
		x.wg.Wait()
	})
	return x
}

// move gives the far side another port; the old one is deaf from then on.
func (x *box) move(tb testing.TB) {
	far := udp(tb)
	x.moves = append(x.moves, far)
	x.far.Store(far)
	x.wg.Go(func() {
		x.pump(far, func(p []byte) {
			if x.far.Load() == far {
				_, _ = x.near.WriteToUDP(p, x.a)
			}
		}, &x.mute)
	})
}

func (x *box) pump(from *net.UDPConn, send func([]byte), mute *atomic.Bool) {
	b := make([]byte, 64<<10)
	for {
		n, _, err := from.ReadFromUDP(b)
		if err != nil {
			return
		}
		if !x.dark.Load() && (mute == nil || !mute.Load()) {
			send(b[:n])
		}
	}
}

func (x *box) nearAddr() netip.AddrPort { return x.near.LocalAddr().(*net.UDPAddr).AddrPort() }
func (x *box) farAddr() netip.AddrPort {
	return x.far.Load().LocalAddr().(*net.UDPAddr).AddrPort()
}

func udp(tb testing.TB) *net.UDPConn {
	tb.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback, 0)))
	if err != nil {
		tb.Fatal(err)
	}
	_ = c.SetReadBuffer(4 << 20)
	return c
}
