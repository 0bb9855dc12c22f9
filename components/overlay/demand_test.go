package overlay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"
)

// An app that connects to a resting Peer sees a slow connect, and no refusal. Its data
// stays in its kernel's buffers meanwhile, and arrives complete.
func TestAConnectionOnDemandIsSlowAndNotRefused(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, onDemand(time.Minute)), w.node("web", "b", 2, onDemand(time.Minute))
	ln, port := b.listen(t)
	serveEach(t, ln, echo)
	connect(a, b, tcpPort(port), nil)
	w.gw.Pause()
	conn := a.dial(t, b, port)
	all := bytes.Repeat([]byte("the bytes of an app's write"), 4<<20)
	_ = conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	wrote, err := conn.Write(all)
	if !errors.Is(err, os.ErrDeadlineExceeded) || wrote == 0 {
		t.Fatalf("%d bytes of %d were taken without a session, error %v", wrote, len(all), err)
	}
	if got := a.state(b); got != SessionDialing {
		t.Errorf("the link is %s, want %s", got, SessionDialing)
	}
	w.gw.Cut()
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, all[:wrote]) {
		t.Errorf("%d bytes came back of %d, error %v", len(got), wrote, err)
	}
}

// A connection to a Peer that is not reached ends with a reset.
func TestAConnectionOnDemandHasATimeout(t *testing.T) {
	w := newWorld(t)
	short := func(c *Config) { c.limits.demandTime = time.Second }
	a, b := w.node("db", "a", 1, onDemand(time.Minute), short), w.node("web", "b", 2, onDemand(time.Minute))
	ln, port := b.listen(t)
	connect(a, b, tcpPort(port), nil)
	defer ln.Close()
	w.gw.Pause()
	if _, err := io.ReadAll(a.dial(t, b, port)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("app's read ended with %v, want a reset", err)
	}
}

// Of the datagrams to a resting Peer the first 64 KiB wait. Later datagrams are lost, as
// datagrams may be.
func TestDatagramsOnDemandAreBounded(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1, onDemand(time.Minute)), w.node("web", "b", 2, onDemand(time.Minute))
	server, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(b.vip(b), 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	port := uint16(server.LocalAddr().(*net.UDPAddr).Port)
	connect(a, b, udpPort(port), nil)
	w.gw.Pause()
	app, err := net.Dial("udp", netip.AddrPortFrom(a.vip(b), port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	const size = 1000
	eventually(t, "datagrams that find no room", func() bool {
		_, _ = app.Write(make([]byte, size)) // refused until the port is bound
		return a.Stats().Peers[0].DroppedDatagrams >= 10
	})
	w.gw.Cut()
	a.session(t, b)
	_ = server.SetReadDeadline(time.Now().Add(15 * time.Second))
	got, last, buf := 0, []byte("the last one"), make([]byte, 2*size)
	if _, err := app.Write(last); err != nil {
		t.Fatal(err)
	}
	for {
		n, err := server.Read(buf)
		if err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
		if bytes.Equal(buf[:n], last) {
			break
		}
		got += n
	}
	if got == 0 || got > 64<<10 {
		t.Errorf("%d bytes waited, want up to %d", got, 64<<10)
	}
}
