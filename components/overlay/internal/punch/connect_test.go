package punch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"
)

// pair gathers both sides.
func pair(t testing.TB, c Config) (controlling, controlled *Local) {
	t.Helper()
	r := newReflector(t, nil)
	c.Reflectors = []string{r.addr()}
	return gather(t, c), gather(t, Config{Reflectors: c.Reflectors})
}

func TestBothSidesEndWithTheSameConnection(t *testing.T) {
	for _, first := range []string{"controlling", "controlled", "both"} {
		t.Run(first+" begins", func(t *testing.T) {
			a, b := pair(t, Config{})
			var ca, cb <-chan outcome
			startA := func() { ca = connect(t.Context(), t, a, b.Candidates(), true) }
			startB := func() { cb = connect(t.Context(), t, b, a.Candidates(), false) }
			switch first {
			case "controlling":
				startA()
				eventually(t, "a SYN at the controlled side's port", func() bool { return running(a) })
				startB()
			case "controlled":
				startB()
				eventually(t, "a SYN at the controlling side's port", func() bool { return running(b) })
				startA()
			default:
				startA()
				startB()
			}
			x, y := await(t, ca), await(t, cb)
			exchange(t, x, y)
			if x.Local() != y.Remote() || x.Remote() != y.Local() {
				t.Fatalf("ends differ: %v-%v and %v-%v", x.Local(), x.Remote(), y.Local(), y.Remote())
			}
			in, err := x.Info()
			t.Logf("%s, %s: %s; %s: %+v %v", first, x.How(), y.How(), x.Kind(), in, err)
		})
	}
}

// running reports whether l is in Connect.
func running(l *Local) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cancel != nil
}

func TestMappedAddressIsThatOfThePort(t *testing.T) {
	r1, r2 := newReflector(t, nil), newReflector(t, nil)
	l := gather(t, Config{Reflectors: []string{r1.addr(), r2.addr(), "127.0.0.1:1"}})
	got := l.Candidates()
	want := Candidate{Mapped, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(l.port))}
	if len(got) != 1 || got[0] != want {
		t.Fatalf("got %v, want %v", got, want)
	}
	if r1.open() != 1 || r2.open() != 1 {
		t.Fatal("the connections to the reflectors must stay open")
	}
	l.Close()
	eventually(t, "end of the connections to the reflectors", func() bool { return r1.open()+r2.open() == 0 })
}

func TestGatherWithoutAnythingToOffer(t *testing.T) {
	_, err := Gather(t.Context(), Config{Allow: anywhere})
	wantErr(t, err, ErrNoCandidates)
	_, err = Gather(t.Context(), Config{Allow: anywhere, Reflectors: []string{"127.0.0.1:1"}})
	if err == nil {
		t.Fatal("got a Local from a reflector that is not there")
	}
}

func TestGatherEndsWithItsContext(t *testing.T) {
	mute, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		c, err := mute.Accept()
		if err == nil {
			defer c.Close()
		}
		cancel(gone)
	}()
	_, err = Gather(ctx, Config{Reflectors: []string{mute.Addr().String()}, Allow: anywhere})
	wantErr(t, err, gone)
}

func TestCloseAtEveryStage(t *testing.T) {
	t.Run("before connect", func(t *testing.T) {
		a, b := pair(t, Config{})
		a.Close()
		a.Close()
		_, err := a.Connect(t.Context(), b.Candidates(), true, 0)
		wantErr(t, err, ErrClosed)
	})
	for _, controlling := range []bool{true, false} {
		t.Run("while connecting", func(t *testing.T) {
			a, b := pair(t, Config{})
			remote := b.Candidates()
			if controlling {
				// A connection stands and its ready byte never comes.
				for i := range remote {
					remote[i].Kind = Host
				}
			} else {
				b.Close() // every dial is refused
			}
			out := connect(t.Context(), t, a, remote, controlling)
			eventually(t, "connecting", func() bool { return running(a) })
			_, err := a.Connect(t.Context(), remote, controlling, 0)
			wantErr(t, err, ErrBusy)
			a.Close()
			o := <-out
			wantErr(t, o.err, ErrClosed)
		})
	}
	t.Run("context", func(t *testing.T) {
		a, b := pair(t, Config{})
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		out := connect(ctx, t, a, b.Candidates(), false)
		eventually(t, "connecting", func() bool { return running(a) })
		cancel(gone)
		wantErr(t, (<-out).err, gone)
		// The port is still good.
		x, y := connect(t.Context(), t, a, b.Candidates(), false), connect(t.Context(), t, b, a.Candidates(), true)
		exchange(t, await(t, y), await(t, x))
	})
	t.Run("both ends after the connection", func(t *testing.T) {
		a, b := pair(t, Config{})
		x, y := connect(t.Context(), t, a, b.Candidates(), true), connect(t.Context(), t, b, a.Candidates(), false)
		ca, cb := await(t, x), await(t, y)
		a.Close()
		b.Close()
		exchange(t, ca, cb)
	})
}

// A Peer that is there but never answers costs connectTime and no more.
func TestSilenceIsBounded(t *testing.T) {
	a, b := pair(t, Config{})
	begin := time.Now()
	_, err := a.Connect(t.Context(), b.Candidates(), false, 0) // no side picks
	wantErr(t, err, ErrNoConnection)
	t.Logf("took %v", time.Since(begin))
}

func TestGarbageBeforeThePick(t *testing.T) {
	for _, text := range []string{"x", "r", "\x16\x03\x01", ""} {
		t.Run(text, func(t *testing.T) {
			a, b := pair(t, Config{})
			out := connect(t.Context(), t, b, a.Candidates(), false)
			// Another process on the Peer's host is faster than the Peer.
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
			bad, err := d.Dial("tcp4", b.Candidates()[0].Addr.String())
			if err != nil {
				t.Fatal(err)
			}
			defer bad.Close()
			if _, err := bad.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if text == "" {
				bad.Close()
			}
			in := connect(t.Context(), t, a, b.Candidates(), true)
			exchange(t, await(t, in), await(t, out))
		})
	}
}

// A Peer that sends something else than the ready byte is found out at the
// first read, by the side that had picked already.
func TestGarbageInsteadOfReady(t *testing.T) {
	a, _ := pair(t, Config{})
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := ln.Accept()
		if err == nil {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request"))
			_, _ = c.Read(make([]byte, 1))
			c.Close()
		}
	})
	addr := addrPort(ln.Addr())
	c, err := a.Connect(t.Context(), []Candidate{{Mapped, addr}}, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if _, err := c.Read(make([]byte, 4)); !errors.Is(err, ErrGarbage) {
			t.Fatalf("got %v, want %v", err, ErrGarbage)
		}
	}
}

// Over a private address another host may answer, which does not say ready.
func TestWrongHostIsNotPicked(t *testing.T) {
	a, b := pair(t, Config{})
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	remote := append([]Candidate{{Host, addrPort(ln.Addr())}}, b.Candidates()...)
	x := connect(t.Context(), t, a, remote, true)
	wrong, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	y := connect(t.Context(), t, b, a.Candidates(), false)
	c := await(t, x)
	exchange(t, c, await(t, y))
	if c.Kind() != Mapped {
		t.Fatalf("got %s, want %s", c.Kind(), Mapped)
	}
}

func TestUnexpectedCallersAreIgnored(t *testing.T) {
	a, b := pair(t, Config{})
	out := connect(t.Context(), t, b, []Candidate{{Mapped, netip.MustParseAddrPort("127.0.0.9:9")}}, false)
	bad, err := net.Dial("tcp4", b.Candidates()[0].Addr.String())
	if err == nil { // else the reset was faster
		defer bad.Close()
		if n, err := bad.Read(make([]byte, 1)); err == nil {
			t.Fatalf("an unexpected caller got %d bytes", n)
		}
	}
	b.Close()
	wantErr(t, (<-out).err, ErrClosed)
	_ = a
}

func TestListenerOfThePeer(t *testing.T) {
	for _, controlling := range []bool{true, false} {
		a, b := pair(t, Config{})
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		port := uint16(ln.Addr().(*net.TCPAddr).Port)
		with := gather(t, Config{Advertise: []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)}})
		if got := with.Candidates(); len(got) != 1 || got[0].Kind != Listen {
			t.Fatalf("got %v, want the listener", got)
		}
		_ = b
		out := connect(t.Context(), t, a, with.Candidates(), controlling)
		far, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		c := await(t, out)
		if !c.ToListener() || c.Kind() != Listen || c.How() == Passive {
			t.Fatalf("got %s %s, to listener: %v", c.Kind(), c.How(), c.ToListener())
		}
		exchange(t, c, far) // no ready, no pick
	}
}

// The controlled side has the Peer's listener, and the Peer picks another
// connection: that one counts.
func TestPickBeatsTheListener(t *testing.T) {
	a, b := pair(t, Config{})
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	remote := append(a.Candidates(), Candidate{Listen, addrPort(ln.Addr())})
	y := connect(t.Context(), t, b, remote, false)
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	x := connect(t.Context(), t, a, b.Candidates(), true)
	cy := await(t, y)
	exchange(t, await(t, x), cy)
	if cy.ToListener() {
		t.Fatal("the pick must count")
	}
}

func TestThousandGatherAndClose(t *testing.T) {
	r := newReflector(t, nil)
	before := descriptors(t)
	n := 1000
	if testing.Short() {
		n = 100
	}
	for range n {
		l, err := Gather(t.Context(), Config{Reflectors: []string{r.addr()}, Allow: anywhere})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	eventually(t, "end of the connections to the reflector", func() bool { return r.open() == 0 })
	eventually(t, "end of all descriptors", func() bool { return descriptors(t) <= before+1 }) // the poller's own
}

// descriptors counts this process's open files.
func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(d)
}

func TestOverIPv6(t *testing.T) {
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	r := newReflector(t, ln)
	a, b := gather(t, Config{Reflectors: []string{r.addr()}}), gather(t, Config{Reflectors: []string{r.addr()}})
	x, y := connect(t.Context(), t, a, b.Candidates(), true), connect(t.Context(), t, b, a.Candidates(), false)
	c := await(t, x)
	exchange(t, c, await(t, y))
	if !c.Remote().Addr().Is6() {
		t.Fatalf("got %v", c.Remote())
	}
}

// A connection from a search that the Peer has left waits at the port and must not be
// picked.
func TestConnectionOfAnSearchThatIsOver(t *testing.T) {
	for _, end := range []string{"orderly", "reset", "not at all"} {
		t.Run(end, func(t *testing.T) {
			a, b := pair(t, Config{})
			old, err := net.Dial("tcp4", a.Candidates()[0].Addr.String())
			if err != nil {
				t.Fatal(err)
			}
			defer old.Close()
			switch end {
			case "orderly":
				old.Close()
			case "reset":
				if _, err := old.Write([]byte{readyByte}); err != nil {
					t.Fatal(err)
				}
				abort(old.(*net.TCPConn))
			}
			x, y := connect(t.Context(), t, a, b.Candidates(), true), connect(t.Context(), t, b, a.Candidates(), false)
			exchange(t, await(t, x), await(t, y))
		})
	}
}
