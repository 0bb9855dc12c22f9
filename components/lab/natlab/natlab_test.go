package natlab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

// open makes a Lab that ends with the test, or skips it.
func open(t testing.TB) *Lab {
	t.Helper()
	if err := Available(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	l, err := New(t.Context(), Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func public(t testing.TB, l *Lab, name string) *Host {
	t.Helper()
	h, err := l.Public(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func behind(t testing.TB, l *Lab, name string, nat NAT, k Link) *Host {
	t.Helper()
	h, err := l.Behind(name, nat, k)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// node is a UDP socket in a host.
type node struct {
	t testing.TB
	*net.UDPConn
}

func udp(t testing.TB, h *Host) *node {
	t.Helper()
	n := &node{t: t}
	err := h.Inside(func() (err error) {
		n.UDPConn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IP(h.Addr().AsSlice())})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func (n *node) addr() netip.AddrPort { return n.LocalAddr().(*net.UDPAddr).AddrPort() }

func (n *node) send(to netip.AddrPort, text string) {
	n.t.Helper()
	if _, err := n.WriteToUDPAddrPort([]byte(text), to); err != nil {
		n.t.Fatal(err)
	}
}

// receive is the next datagram; "" after a time in which any would have come.
func (n *node) receive() (string, netip.AddrPort) {
	n.t.Helper()
	_ = n.SetReadDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 2000)
	size, from, err := n.ReadFromUDPAddrPort(buf)
	if err != nil {
		return "", netip.AddrPort{}
	}
	return string(buf[:size]), from
}

// mapped is the address that to sees n at.
func (n *node) mapped(to *node) netip.AddrPort {
	n.t.Helper()
	question := fmt.Sprint("my address ", time.Now().UnixNano())
	n.send(to.addr(), question)
	for {
		got, from := to.receive()
		if got == question {
			return from
		}
		if got == "" {
			n.t.Fatalf("nothing came from %s to %s", n.addr(), to.addr())
		}
	}
}

// gets reports whether from's packet to the public address to reaches n. The marked
// packet of mark to n's mapping follows it, and arrives later.
func (n *node) gets(from *node, to netip.AddrPort, mark *node) bool {
	n.t.Helper()
	marked := n.mapped(mark)
	from.send(to, "probe")
	mark.send(marked, "marker")
	got, _ := n.receive()
	if got == "probe" {
		if second, _ := n.receive(); second != "marker" {
			n.t.Fatalf("after the probe came %q", second)
		}
	} else if got != "marker" {
		n.t.Fatalf("not even the marker came, but %q", got)
	}
	return got == "probe"
}

func TestMappingAndFiltering(t *testing.T) {
	l := open(t)
	p, q := public(t, l, "p"), public(t, l, "q")
	m := udp(t, public(t, l, "marker"))
	p1, p2, p3, q1, q2 := udp(t, p), udp(t, p), udp(t, p), udp(t, q), udp(t, q)
	for _, c := range []struct {
		name                      string
		nat                       NAT
		sameMapping               bool
		fromAddress, fromAnywhere bool
	}{
		{"full cone", FullCone, true, true, true},
		{"address restricted", AddressRestricted, true, true, false},
		{"port restricted", PortRestricted, true, false, false},
		{"symmetric", Symmetric, false, false, false},
		{"symmetric, full filtering", NAT{Mapping: MapSymmetric, Filtering: FilterEndpointIndependent}, false, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := behind(t, l, c.name, c.nat, Link{})
			n := udp(t, h)
			first := n.mapped(p1)
			if first.Addr() != h.Public() {
				t.Errorf("seen from %s, want address %s", first, h.Public())
			}
			if c.sameMapping && first.Port() != n.addr().Port() {
				t.Errorf("port %d became %d", n.addr().Port(), first.Port())
			}
			// Nothing is sent to p2 and q1, ever.
			if got := n.gets(p2, first, m); got != c.fromAddress {
				t.Errorf("from another port of an address it sent to: %v, want %v", got, c.fromAddress)
			}
			if got := n.gets(q1, first, m); got != c.fromAnywhere {
				t.Errorf("from an address it did not send to: %v, want %v", got, c.fromAnywhere)
			}
			second, third := n.mapped(p3), n.mapped(q2)
			if same := second == first && third == first; same != c.sameMapping {
				t.Errorf("seen from %s, %s, %s", first, second, third)
			}
			if !c.sameMapping && (second == first || third == first || second == third) {
				t.Errorf("seen from %s, %s, %s", first, second, third)
			}
			if !n.gets(q2, third, m) {
				t.Error("an answer to its packet does not come in")
			}
			// A port that nothing was sent from is closed in any case.
			if n.gets(q1, netip.AddrPortFrom(h.Public(), 9), m) {
				t.Error("an unmapped port is open")
			}
		})
	}
}

func TestRebindMovesMappings(t *testing.T) {
	l := open(t)
	p, q := public(t, l, "p"), public(t, l, "q")
	p1, q1 := udp(t, p), udp(t, q)
	for name, nat := range map[string]NAT{"full cone": FullCone, "port restricted": PortRestricted, "symmetric": Symmetric} {
		t.Run(name, func(t *testing.T) {
			h := behind(t, l, name, nat, Link{})
			n, other := udp(t, h), udp(t, h)
			before := n.mapped(p1)
			if err := l.Rebind(name); err != nil {
				t.Fatal(err)
			}
			after := n.mapped(p1)
			if after == before {
				t.Errorf("still at %s", after)
			}
			if got := n.mapped(q1); (got == after) != (nat.Mapping != MapSymmetric) {
				t.Errorf("seen from %s and %s", after, got)
			}
			if got := other.mapped(p1); got == after {
				t.Errorf("two sockets at %s", got)
			}
			if n.gets(p1, before, q1) {
				t.Error("the old mapping still works")
			}
			if nat == FullCone && !n.gets(udp(t, p), after, q1) {
				t.Error("the new mapping is not open to all")
			}
		})
	}
}

func TestHairpin(t *testing.T) {
	l := open(t)
	p1 := udp(t, public(t, l, "p"))
	for _, c := range []struct {
		name     string
		nat      NAT
		hairpins bool
	}{
		{"off", PortRestricted, false},
		{"on", NAT{Hairpin: true}, true},
		{"on, symmetric", NAT{Mapping: MapSymmetric, Hairpin: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := udp(t, behind(t, l, c.name+" a", c.nat, Link{}))
			b := udp(t, behind(t, l, c.name+" b", NAT{Box: c.name + " a"}, Link{}))
			at, bt := a.mapped(p1), b.mapped(p1)
			if at.Addr() != bt.Addr() {
				t.Fatalf("not one box: %s and %s", at, bt)
			}
			if c.hairpins {
				a.send(bt, "hairpin")
				got, from := b.receive()
				if got != "hairpin" || from.Addr() != at.Addr() {
					t.Fatalf("got %q from %s, want it from %s", got, from, at)
				}
				if c.nat.Mapping != MapSymmetric && from != at {
					t.Errorf("from %s, want %s", from, at)
				}
				b.send(from, "back")
				if got, from := a.receive(); got != "back" || from != bt {
					t.Errorf("back came %q from %s, want from %s", got, from, bt)
				}
			} else if b.gets(a, bt, p1) {
				t.Error("it hairpins")
			}
			a.send(b.addr(), "private")
			p1.send(bt, "marker")
			if got, _ := b.receive(); got != "marker" {
				t.Errorf("%q came by the private address", got)
			}
		})
	}
}

func TestTwoHostsOfABoxWithOnePort(t *testing.T) {
	l := open(t)
	p1 := udp(t, public(t, l, "p"))
	a := behind(t, l, "a", FullCone, Link{})
	b := behind(t, l, "b", NAT{Box: "a"}, Link{})
	var nodes []*node
	for _, h := range []*Host{a, b} {
		n := &node{t: t}
		if err := h.Inside(func() (err error) {
			n.UDPConn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IP(h.Addr().AsSlice()), Port: 5000})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		nodes = append(nodes, n)
	}
	at, bt := nodes[0].mapped(p1), nodes[1].mapped(p1)
	if at == bt {
		t.Fatalf("both at %s", at)
	}
	p1.send(at, "to a")
	p1.send(bt, "to b")
	for i, want := range []string{"to a", "to b"} {
		if got, _ := nodes[i].receive(); got != want {
			t.Errorf("host %d got %q, want %q", i, got, want)
		}
	}
}

func TestConfigAndClosing(t *testing.T) {
	l := open(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Public("p"); err == nil {
		t.Error("a closed lab took a host")
	}
	other, err := New(t.Context(), Config{PublicNet: netip.MustParsePrefix("11.22.33.44/16")})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if h := behind(t, other, "h", PortRestricted, Link{}); !netip.MustParsePrefix("11.22.0.0/16").Contains(h.Public()) {
		t.Errorf("public address %s", h.Public())
	}
	if _, err := New(t.Context(), Config{PublicNet: netip.MustParsePrefix("11.22.33.0/28")}); err == nil {
		t.Error("a lab was made with hardly any addresses")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(ctx, Config{}); err == nil {
		t.Error("a lab was made under a context that had ended")
	}
}
