package underlay

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
)

// content is n bytes that are the same for the same seed.
func content(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = r.Read(b)
	return b
}

// transfer moves b from one end to the other and checks it.
func transfer(tb testing.TB, from io.WriteCloser, to io.Reader, b []byte) {
	tb.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := from.Write(b)
		if err == nil {
			err = from.Close()
		}
		sent <- err
	}()
	h := sha256.New()
	n, err := io.Copy(h, to)
	if err != nil {
		tb.Fatalf("read after %d bytes: %v", n, err)
	}
	if err := <-sent; err != nil {
		tb.Fatalf("write: %v", err)
	}
	want := sha256.Sum256(b)
	if n != int64(len(b)) || !bytes.Equal(h.Sum(nil), want[:]) {
		tb.Fatalf("got %d bytes, want %d, or others", n, len(b))
	}
}

func TestQUICOverVirtualAddresses(t *testing.T) {
	a, b := joined(t)
	near, far := quicPair(t, a.s.QUIC(), b.s.QUIC(), a.VirtualAddr())
	transfer(t, near, far, content(6<<20, 1))
	transfer(t, far, near, content(2<<20, 2))
	if d := b.s.Stats().Dropped; d.Unknown+d.Forged+d.Replayed+d.Malformed+d.Oversized != 0 {
		t.Errorf("dropped %+v", d)
	}
	for _, l := range []*Link{a, b} {
		p := l.Paths()
		if len(p) != 1 || !p[0].InUse || p[0].RTT == 0 || p[0].DatagramsIn == 0 {
			t.Errorf("paths %+v", p)
		}
	}
}

func TestVirtualAddressesAreUnique(t *testing.T) {
	s := open(t)
	seen := map[string]bool{}
	for range 100 {
		l := s.NewLink("x")
		addr := l.VirtualAddr()
		if seen[addr.String()] || !addr.IP.To4().Equal(addr.IP) {
			t.Fatalf("address %v", addr)
		}
		seen[addr.String()] = true
		addr.IP[0] = 1 // a caller's copy
		if l.VirtualAddr().IP[0] != 100 {
			t.Fatal("virtual address is shared")
		}
		l.Close()
	}
	if n := len(*s.virtuals.Load()); n != 0 {
		t.Errorf("%d virtual addresses left", n)
	}
}

// quic-go gets the methods of its fast path, and no method that bypasses the Socket.
func TestFastPathIsOffered(t *testing.T) {
	s := open(t)
	if _, ok := s.QUIC().(*net.UDPConn); ok {
		t.Fatal("QUIC has the socket itself")
	}
	if local := s.QUIC().LocalAddr().(*net.UDPAddr); local.IP.IsUnspecified() || local.Port != s.LocalAddr().Port {
		t.Errorf("local address %v", local)
	}
}

// A transport may follow a closed one, and probes work in between.
func TestTransportsFollowOneAnother(t *testing.T) {
	a, b := joined(t)
	for range 3 {
		t.Run("", func(t *testing.T) {
			near, far := quicPair(t, a.s.QUIC(), b.s.QUIC(), a.VirtualAddr())
			transfer(t, near, far, content(1<<16, 3))
		})
		before := a.s.now()
		a.mu.Lock()
		a.probeLocked(before, a.paths[0])
		a.mu.Unlock()
		waitFor(t, "answer without a transport", func() bool { return a.s.now()-a.Alive() >= before })
	}
}

func TestCloseEndsReaders(t *testing.T) {
	s := open(t)
	ends := make(chan error, 2)
	for _, c := range []net.PacketConn{s.QUIC(), s.STUN()} {
		go func() {
			_, _, err := c.ReadFrom(make([]byte, 2048))
			ends <- err
		}()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ends; err == nil {
			t.Error("reader ended without an error")
		}
	}
	l := s.NewLink("late")
	l.Add(Path{Search: "one", Kind: Direct, Remote: at(open(t)), Key: secret(1)})
	if n := len(l.Paths()); n != 0 {
		t.Error("a link of a closed socket is open")
	}
}

// An IPv6 socket also receives from IPv4, with mapped addresses.
func TestDualStack(t *testing.T) {
	six, err := Open(t.Context(), Config{Listen: netip.AddrPortFrom(netip.IPv6Unspecified(), 0)})
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	defer six.Close()
	a, b := six.NewLink("b"), open(t).NewLink("a")
	join(a, b, "one", at(b.s), netip.AddrPortFrom(loopback, at(six).Port()))
	waitFor(t, "a path", func() bool { return up(a) && up(b) })
	t.Run("transfer", func(t *testing.T) {
		near, far := quicPair(t, a.s.QUIC(), b.s.QUIC(), a.VirtualAddr())
		transfer(t, near, far, content(1<<20, 1))
		transfer(t, far, near, content(1<<20, 2))
	})
}

// A path that is added again is the same path, asked at once; with another
// secret it is another search's.
func TestAddRefreshes(t *testing.T) {
	a, b := joined(t)
	id := func() any {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.paths[0].id
	}
	first, sent := id(), a.s.Stats().DatagramsOut
	join(a, b, "one", at(b.s), at(a.s))
	if n := len(a.Paths()); n != 1 || id() != first {
		t.Fatalf("%d paths, first %v, was %v", n, id(), first)
	}
	waitFor(t, "a probe", func() bool { return a.s.Stats().DatagramsOut > sent })
	a.Add(Path{Search: "one", Kind: Direct, Remote: at(b.s), Key: secret(99), Initiator: true})
	if n := len(a.Paths()); n != 1 || id() == first {
		t.Fatalf("%d paths, first %v, was %v", n, id(), first)
	}
	if n := len(*a.s.keys.Load()); n != 1 {
		t.Errorf("%d keys", n)
	}
}

// A slow owner loses the oldest events, and delays only Close.
func TestEventsNeverBlock(t *testing.T) {
	a, b := joined(t)
	var events []Event // of one goroutine at a time
	slow, goOn := make(chan struct{}), make(chan struct{})
	a.Follow(func(e Event) {
		if len(events) == 0 {
			close(slow)
			<-goOn
		}
		events = append(events, e)
	})
	<-slow
	for range 3 * eventsKept {
		join(a, b, "one", at(b.s), at(a.s))
		waitFor(t, "a path", func() bool { return up(a) && up(b) })
		a.Forget("one")
		b.Forget("one")
	}
	closed := make(chan struct{})
	go func() { a.Close(); close(closed) }()
	close(goOn)
	<-closed
	if n := len(events); n != 1+eventsKept || events[0].Kind != PathUp || events[n-1].Kind != PathsGone {
		t.Errorf("%d events, from %+v to %+v", n, events[0], events[n-1])
	}
	if a.notifying || a.events != nil {
		t.Errorf("an idle link holds %d events, notifying %v", len(a.events), a.notifying)
	}
}
