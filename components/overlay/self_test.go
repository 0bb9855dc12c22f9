package overlay

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
)

// TestOVL08_AMemberReachesItsOwnServiceAtItsVIP: a program that calls all members by their VIPs, as
// `patronictl reload` does, calls its own one so too, and the service listens on 127.0.0.1.
func TestOVL08_AMemberReachesItsOwnServiceAtItsVIP(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	ln, port := loopbackPort(t)
	from := make(chan net.Addr, 1)
	serveEach(t, ln, func(c *net.TCPConn) { from <- c.RemoteAddr(); echo(c) })
	rest := []PortRef{{Protocol: TCP, Port: port, Loopback: true}}
	// As coordinators write maps: each offers the port, and accepts it on loopback.
	b.SetPeers([]Peer{b.sees(a, tcpPort(port), rest)})
	roundTrip(t, b.dial(t, b, port), []byte("reload"))
	if got := netip.MustParseAddrPort((<-from).String()).Addr(); got != b.vip(b) {
		t.Errorf("the workload saw the source %v, want its machine's VIP %v", got, b.vip(b))
	}

	// A Peer to which the VIP's port is open, and not that of loopback, gains nothing.
	c := w.node("web", "c", 3)
	serveNothing := func() error {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(b.vip(c), 0))}
		conn, err := d.DialContext(t.Context(), "tcp", netip.AddrPortFrom(b.vip(b), port).String())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = io.ReadAll(conn)
		return err
	}
	if err := serveNothing(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection to a Peer ends with %v, want a reset", err)
	}

	// The port is free again when no Peer has it.
	b.SetPeers([]Peer{b.sees(a, nil, rest)})
	eventually(t, "the port of the VIP is free", func() bool {
		free, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(b.vip(b), port)))
		if err == nil {
			free.Close()
		}
		return err == nil
	})
}
