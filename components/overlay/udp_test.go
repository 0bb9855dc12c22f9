package overlay

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"
)

// udpApp is a workload's UDP socket on n's own VIP; port 0 picks one.
func (n *testNode) udpApp(t *testing.T, port uint16) (*net.UDPConn, uint16) {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.vip(n), port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c, uint16(c.LocalAddr().(*net.UDPAddr).Port)
}

// expect sends msg until it arrives, as UDP apps must, and returns its source.
func expect(t *testing.T, from *net.UDPConn, to netip.AddrPort, at *net.UDPConn, msg []byte) netip.AddrPort {
	t.Helper()
	buf := make([]byte, 64<<10)
	var source netip.AddrPort
	eventually(t, "datagram", func() bool {
		if _, err := from.WriteToUDPAddrPort(msg, to); err != nil {
			return false
		}
		_ = at.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		n, addr, err := at.ReadFromUDPAddrPort(buf)
		source = addr
		return err == nil && bytes.Equal(buf[:n], msg)
	})
	return netip.AddrPortFrom(source.Addr().Unmap(), source.Port())
}

// Gossip of the kind that Consul speaks: both ends use one port, and each knows
// the other by VIP and that port.
func TestUDPSamePortBothWays(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	appB, port := b.udpApp(t, 0)
	appA, _ := a.udpApp(t, port)
	connect(a, b, udpPort(port), udpPort(port))
	a.session(t, b)

	got := expect(t, appA, netip.AddrPortFrom(a.vip(b), port), appB, []byte("from a"))
	if want := netip.AddrPortFrom(b.vip(a), port); got != want {
		t.Errorf("b saw source %v, want %v", got, want)
	}
	got = expect(t, appB, netip.AddrPortFrom(b.vip(a), port), appA, []byte("from b"))
	if want := netip.AddrPortFrom(a.vip(b), port); got != want {
		t.Errorf("a saw source %v, want %v", got, want)
	}
	for _, size := range []int{0, 1, 1400, 8 << 10, 60_000} {
		expect(t, appA, netip.AddrPortFrom(a.vip(b), port), appB, bytes.Repeat([]byte{byte(size)}, size))
	}
}

// A client with a port of its own, and answers to it.
func TestUDPAnswersFindTheClient(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	service, port := b.udpApp(t, 0)
	connect(a, b, udpPort(port), nil)
	a.session(t, b)
	client, clientPort := a.udpApp(t, 0)

	from := expect(t, client, netip.AddrPortFrom(a.vip(b), port), service, []byte("question"))
	if want := netip.AddrPortFrom(b.vip(a), clientPort); from != want {
		t.Errorf("service saw source %v, want %v", from, want)
	}
	got := expect(t, service, from, client, bytes.Repeat([]byte("a"), 8<<10))
	if want := netip.AddrPortFrom(a.vip(b), port); got != want {
		t.Errorf("client saw source %v, want %v", got, want)
	}
	// The service may answer, and speak to nothing else.
	other, otherPort := a.udpApp(t, 0)
	_, _ = service.WriteToUDPAddrPort([]byte("unasked"), netip.AddrPortFrom(b.vip(a), otherPort))
	_ = other.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, _, err := other.ReadFromUDPAddrPort(make([]byte, 64)); err == nil {
		t.Errorf("%d bytes reached a closed port", n)
	}
}

func TestUDPPortIsFreedWithItsOffer(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	service, port := b.udpApp(t, 0)
	connect(a, b, udpPort(port), nil)
	a.session(t, b)
	client, _ := a.udpApp(t, 0)
	expect(t, client, netip.AddrPortFrom(a.vip(b), port), service, []byte("x"))
	connect(a, b, nil, nil)
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.vip(b), port)))
	if err != nil {
		t.Fatalf("the address of a withdrawn offer: %v", err)
	}
	c.Close()
}
