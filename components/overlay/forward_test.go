package overlay

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestForwardTCPShowsThePeersVIP_OVL08(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := b.listen(t)
	from := make(chan net.Addr, 1)
	serveEach(t, ln, func(c *net.TCPConn) { from <- c.RemoteAddr(); echo(c) })
	connect(a, b, tcpPort(port), nil)

	conn := a.dial(t, b, port)
	roundTrip(t, conn, []byte("hello"))
	got := netip.MustParseAddrPort((<-from).String()).Addr()
	if want := b.vip(a); got != want {
		t.Errorf("workload saw source %v, want the sender's VIP %v", got, want)
	}
}

// roundTrip writes, half-closes, and wants the same back.
func roundTrip(t *testing.T, conn *net.TCPConn, msg []byte) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := conn.Write(msg); err != nil {
			t.Errorf("write: %v", err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Errorf("half-close: %v", err)
		}
	})
	got, err := io.ReadAll(conn)
	wg.Wait()
	if err != nil || !bytes.Equal(got, msg) {
		t.Fatalf("echo of %d bytes: got %d bytes, error %v", len(msg), len(got), err)
	}
}

// loopbackPort is a listener on 127.0.0.1 with a port that is free on every other address.
func loopbackPort(t *testing.T) (net.Listener, uint16) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln, uint16(ln.Addr().(*net.TCPAddr).Port)
}

// listenAlone is a listener on n's VIP with a port that stays unused on 127.0.0.1: a
// socket that is bound and does not listen keeps other processes off it.
func listenAlone(t *testing.T, n *testNode) (net.Listener, uint16) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	for {
		ln, port := n.listen(t)
		err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
		if err == nil {
			return ln, port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
		_ = ln.Close()
	}
}

// An accepted port of the VIP without a listener does not lead to a listener on the same
// port of loopback, and the other way round.
func TestOVL08_NoOtherAddressStandsInForTheDeclaredOne(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := loopbackPort(t)
	serveEach(t, ln, func(*net.TCPConn) { t.Error("an undeclared service of loopback was reached") })
	connect(a, b, tcpPort(port), nil)
	if _, err := io.ReadAll(a.dial(t, b, port)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("app's read ended with %v, want a reset", err)
	}
	vip, port := listenAlone(t, b)
	serveEach(t, vip, func(*net.TCPConn) { t.Error("the VIP was reached, and loopback was declared") })
	connect(a, b, []PortRef{{Protocol: TCP, Port: port, Loopback: true}}, nil)
	if _, err := io.ReadAll(a.dial(t, b, port)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("app's read ended with %v, want a reset", err)
	}
}

// TestADeclaredServiceOfLoopbackIsReached, and sees the Peer's VIP as its source.
func TestADeclaredServiceOfLoopbackIsReached(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := loopbackPort(t)
	from := make(chan net.Addr, 1)
	serveEach(t, ln, func(c *net.TCPConn) { from <- c.RemoteAddr(); echo(c) })
	connect(a, b, []PortRef{{Protocol: TCP, Port: port, Loopback: true}}, nil)
	roundTrip(t, a.dial(t, b, port), []byte("hello"))
	if got := netip.MustParseAddrPort((<-from).String()).Addr(); got != b.vip(a) {
		t.Errorf("workload saw source %v, want the sender's VIP %v", got, b.vip(a))
	}
}

// TestOVL07_APortOfTheNodesOwnStaysClosed, although the receiver's own map
// opens it for the Peer.
func TestOVL07_APortOfTheNodesOwnStaysClosed(t *testing.T) {
	w := newWorld(t)
	own, port := loopbackPort(t)
	serveEach(t, own, func(*net.TCPConn) { t.Error("the node's own port was reached") })
	a, b := w.node("db", "a", 1), w.node("db", "b", 2, func(c *Config) { c.Private = []uint16{port} })
	free, other := b.listen(t)
	serveEach(t, free, echo)
	connect(a, b, []PortRef{
		{Protocol: TCP, Port: port, Loopback: true}, {Protocol: UDP, Port: port}, {Protocol: TCP, Port: other},
	}, nil)
	roundTrip(t, a.dial(t, b, other), []byte("hello"))
	if _, err := io.ReadAll(a.dial(t, b, port)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("app's read ended with %v, want a reset", err)
	}
	app, err := net.Dial("udp", netip.AddrPortFrom(a.vip(b), port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	eventually(t, "both refusals counted", func() bool {
		_, _ = app.Write([]byte("x")) // datagrams get lost
		p := b.Stats().Peers[0]
		return p.RefusedTCP >= 1 && p.RefusedUDP >= 1 // a dial that is reset at once is made again
	})
}

func TestHalfCloseTravels(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := b.listen(t)
	serveEach(t, ln, func(c *net.TCPConn) {
		// Answers only after the caller has said everything.
		all, err := io.ReadAll(c)
		if err != nil {
			return
		}
		sum := sha256.Sum256(all)
		_, _ = c.Write(sum[:])
	})
	connect(a, b, tcpPort(port), nil)

	conn := a.dial(t, b, port)
	msg := bytes.Repeat([]byte("0123456789"), 100_000)
	if _, err := conn.Write(msg); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	want := sha256.Sum256(msg)
	if err != nil || !bytes.Equal(got, want[:]) {
		t.Fatalf("answer after half-close: %x, error %v, want %x", got, err, want)
	}
}

func TestResetTravels(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := b.listen(t)
	ends := make(chan error, 1)
	serverResets := make(chan bool, 1)
	serveEach(t, ln, func(c *net.TCPConn) {
		one := make([]byte, 1)
		_, _ = io.ReadFull(c, one)
		_, _ = c.Write(one)
		if <-serverResets {
			_ = c.SetLinger(0)
			c.Close()
			return
		}
		_, err := io.Copy(io.Discard, c)
		ends <- err
	})
	connect(a, b, tcpPort(port), nil)

	t.Run("from the app", func(t *testing.T) {
		conn := a.dial(t, b, port)
		ping(t, conn)
		serverResets <- false
		_ = conn.SetLinger(0)
		conn.Close()
		if err := <-ends; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("workload's read ended with %v, want a reset", err)
		}
	})
	t.Run("from the workload", func(t *testing.T) {
		conn := a.dial(t, b, port)
		ping(t, conn)
		serverResets <- true
		if _, err := io.Copy(io.Discard, conn); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("app's read ended with %v, want a reset", err)
		}
	})
	t.Run("past a window that is full", func(t *testing.T) {
		conn := a.dial(t, b, port)
		ping(t, conn)
		_ = conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		junk := make([]byte, 1<<20)
		for range 64 {
			if _, err := conn.Write(junk); err != nil {
				break
			}
		}
		serverResets <- true
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.Copy(io.Discard, conn); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("app's read ended with %v, want a reset", err)
		}
	})
	eventually(t, "no connection left", func() bool {
		return a.session(t, b).Streams == 0 && b.session(t, a).Streams == 0
	})
}

// ping makes sure that a connection reaches the workload.
func ping(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	if _, err := conn.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatalf("ping: %v", err)
	}
}

func TestForbiddenPortIsRefused_OVL07(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := b.listen(t)
	serveEach(t, ln, func(*net.TCPConn) { t.Error("a forbidden connection reached the workload") })
	// The sender believes that it may; the receiver knows better.
	a.SetPeers([]Peer{a.sees(b, []PortRef{{Protocol: TCP, Port: port}, {Protocol: UDP, Port: port}}, nil)})
	b.SetPeers([]Peer{b.sees(a, nil, tcpPort(port-1))})

	conn := a.dial(t, b, port)
	if _, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("app's read ended with %v, want a reset", err)
	}
	app, err := net.Dial("udp", netip.AddrPortFrom(a.vip(b), port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	eventually(t, "both refusals counted", func() bool {
		_, _ = app.Write([]byte("x")) // datagrams get lost
		p := b.Stats().Peers[0]
		return p.RefusedTCP >= 1 && p.RefusedUDP >= 1 // a dial that is reset at once is made again
	})
}

func TestNoListener(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := b.listen(t)
	ln.Close()
	connect(a, b, tcpPort(port), nil)
	if _, err := io.ReadAll(a.dial(t, b, port)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("app's read ended with %v, want a reset", err)
	}
}

func TestAbsentPeerHoldsThenResets(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := b.listen(t)
	serveEach(t, ln, echo)
	absent := a.sees(b, tcpPort(port), nil)
	absent.BootID, absent.InstanceID = "", ""
	a.SetPeers([]Peer{absent})
	begin := time.Now()
	if _, err := io.ReadAll(a.dial(t, b, port)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("app's read ended with %v, want a reset", err)
	}
	if held := time.Since(begin); held < 500*time.Millisecond {
		t.Errorf("connection waited for %v, want about 1 s", held)
	}
	if got := a.Sessions()[0].State; got != SessionAbsent {
		t.Errorf("state of an absent peer: %s, want %s", got, SessionAbsent)
	}
	// The connection that waits gets through when the Peer comes.
	conn := a.dial(t, b, port)
	connect(a, b, tcpPort(port), nil)
	roundTrip(t, conn, []byte("hello"))
}

func TestManyStreamsWithChecksums(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := b.listen(t)
	serveEach(t, ln, echo)
	lnA, portA := a.listen(t)
	serveEach(t, lnA, echo)
	connect(a, b, tcpPort(port), tcpPort(portA))
	var wg sync.WaitGroup
	for i := range 64 {
		conn := a.dial(t, b, port)
		if i%2 == 1 {
			conn = b.dial(t, a, portA)
		}
		msg := make([]byte, 200_000+i*1000)
		r := rand.NewChaCha8([32]byte{byte(i)})
		_, _ = r.Read(msg)
		wg.Go(func() { roundTrip(t, conn, msg) })
	}
	wg.Wait()
}

func TestStalledReaderStallsNoOther_OVL17(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := b.listen(t)
	var served sync.Map
	release := make(chan struct{})
	serveEach(t, ln, func(c *net.TCPConn) {
		one := make([]byte, 1)
		_, _ = io.ReadFull(c, one)
		if one[0] == 's' {
			<-release // reads nothing
			return
		}
		served.Store(one[0], true)
		echo(c)
	})
	t.Cleanup(func() { close(release) })
	connect(a, b, tcpPort(port), nil)

	stalled := a.dial(t, b, port)
	if _, err := stalled.Write([]byte("s")); err != nil {
		t.Fatal(err)
	}
	_ = stalled.SetWriteDeadline(time.Now().Add(time.Second))
	junk := make([]byte, 1<<20)
	full := false
	for range 64 {
		if _, err := stalled.Write(junk); err != nil {
			full = true
			break
		}
	}
	if !full {
		t.Fatal("64 MiB went to a reader that reads nothing: no back-pressure")
	}
	conn := a.dial(t, b, port)
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, conn, bytes.Repeat([]byte("y"), 8<<20))
}
