package fabric

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"cadre.dev/lab/natlab"
)

// openNATs makes a fabric whose CVMs are behind NATs, or skips.
func openNATs(t *testing.T, standard Network, cvms int) (*Fabric, []*Port) {
	t.Helper()
	if err := natlab.Available(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	f, err := Open(t.Context(), standard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	var ports []*Port
	for i := range cvms {
		p, err := f.Attach(name(i), i+1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		ports = append(ports, p)
	}
	return f, ports
}

func name(i int) string { return fmt.Sprint("cvm-", i) }

// socket is a UDP socket, at a known address or at the address that inside gives.
type socket struct {
	*testing.T
	*net.UDPConn
}

func listenUDP(t *testing.T, inside func(func() error) error, at netip.Addr) socket {
	t.Helper()
	var c *net.UDPConn
	if err := inside(func() (err error) {
		c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: at.AsSlice()})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return socket{t, c}
}

func (s socket) at() netip.AddrPort { return s.LocalAddr().(*net.UDPAddr).AddrPort() }

// seen sends to the other socket and returns where it sees the sender; invalid
// when nothing comes, which is waited for a short time unless it should come.
func (s socket) seen(to netip.AddrPort, by socket, should bool) netip.AddrPort {
	s.Helper()
	text := fmt.Sprint(time.Now().UnixNano())
	_, _ = s.WriteToUDPAddrPort([]byte(text), to)
	wait := 150 * time.Millisecond
	if should {
		wait = 20 * time.Second
	}
	_ = by.SetReadDeadline(time.Now().Add(wait))
	buf := make([]byte, 100)
	for {
		n, from, err := by.ReadFromUDPAddrPort(buf)
		if err != nil {
			return netip.AddrPort{}
		}
		if string(buf[:n]) == text {
			return from
		}
	}
}

func TestNATsBetweenMachines(t *testing.T) {
	f, ports := openNATs(t, Network{NAT: FullCone}, 2)
	stun := listenUDP(t, f.lab.Inside, Address)
	a, b := listenUDP(t, ports[0].Inside, ports[0].Addr), listenUDP(t, ports[1].Inside, ports[1].Addr)
	at, bt := a.seen(stun.at(), stun, true), b.seen(stun.at(), stun, true)
	if at.Addr() != f.Public(name(0)) || bt.Addr() != f.Public(name(1)) || at.Addr() == bt.Addr() {
		t.Fatalf("seen from %s and %s; want %s and %s", at, bt, f.Public(name(0)), f.Public(name(1)))
	}
	t.Run("by public addresses and in no other way", func(t *testing.T) {
		if got := a.seen(bt, b, true); got != at {
			t.Errorf("at the other CVM it comes from %s, want %s", got, at)
		}
		if got := a.seen(b.at(), b, false); got.IsValid() {
			t.Errorf("a private address is reached, from %s", got)
		}
	})
	t.Run("the gateway reaches the private address", func(t *testing.T) {
		var l net.Listener
		if err := ports[0].Inside(func() (err error) { l, err = net.Listen("tcp4", "0.0.0.0:9000"); return err }); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		c, err := f.Dial(ctx, netip.AddrPortFrom(ports[0].Addr, 9000))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if from := c.LocalAddr().(*net.TCPAddr).AddrPort().Addr(); from != Address {
			t.Errorf("from %s, want %s", from, Address)
		}
	})
	t.Run("the CVM reaches the gateway", func(t *testing.T) {
		l, err := f.Listen(t.Context(), 443)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				io.WriteString(c, c.RemoteAddr().String())
				c.Close()
			}
		}()
		var c net.Conn
		if err := ports[0].Inside(func() (err error) {
			c, err = (&net.Dialer{Timeout: 3 * time.Second}).Dial("tcp4", netip.AddrPortFrom(Address, 443).String())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got, _ := io.ReadAll(c)
		if from, err := netip.ParseAddrPort(string(got)); err != nil || from.Addr() != f.Public(name(0)) {
			t.Errorf("seen from %q, want %s", got, f.Public(name(0)))
		}
	})
	t.Run("firewall", func(t *testing.T) {
		_, before, err := f.Flows()
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Transit(false); err != nil {
			t.Fatal(err)
		}
		if a.seen(bt, b, false).IsValid() || !a.seen(stun.at(), stun, true).IsValid() {
			t.Error("not only what goes to the CVM is dropped")
		}
		passing, during, err := f.Flows()
		if err != nil || passing {
			t.Fatal(passing, err)
		}
		if err := f.Transit(true); err != nil {
			t.Fatal(err)
		}
		if !a.seen(bt, b, true).IsValid() {
			t.Error("it stays dropped")
		}
		_, after, err := f.Flows()
		if err != nil {
			t.Fatal(err)
		}
		p0, d0 := counts(before)
		p1, d1 := counts(during)
		p2, d2 := counts(after)
		if p0 == 0 || d0 != 0 || p1 != p0 || d1 != 1 || p2 != p1+1 || d2 != 1 {
			t.Errorf("passed %d, %d, %d; dropped %d, %d, %d", p0, p1, p2, d0, d1, d2)
		}
	})
	t.Run("cuts outlive a boot", func(t *testing.T) {
		if err := f.SetCuts(name(0), []string{name(1)}, nil); err != nil {
			t.Fatal(err)
		}
		if a.seen(bt, b, false).IsValid() || b.seen(at, a, false).IsValid() {
			t.Error("the partition has a hole")
		}
		if err := ports[1].Close(); err != nil {
			t.Fatal(err)
		}
		again, err := f.Attach(name(1), 2)
		if err != nil {
			t.Fatal(err)
		}
		*ports[1] = *again
		b = listenUDP(t, ports[1].Inside, ports[1].Addr)
		bt = b.seen(stun.at(), stun, true)
		if a.seen(bt, b, false).IsValid() {
			t.Error("the partition ended with the boot")
		}
		if err := f.SetCuts(name(0), nil, []string{name(1)}); err != nil {
			t.Fatal(err)
		}
		if a.seen(bt, b, false).IsValid() || !b.seen(at, a, true).IsValid() {
			t.Error("the cut is not one way")
		}
		f.Forget(name(1))
		if err := f.SetCuts(name(0), nil, nil); err != nil {
			t.Fatal(err)
		}
		if len(f.Cuts()) != 0 {
			t.Errorf("cuts left: %v", f.Cuts())
		}
	})
}

// counts sums up UDP.
func counts(flows []natlab.Flow) (passed, dropped int64) {
	for _, f := range flows {
		if f.Protocol == "udp" {
			passed, dropped = passed+f.Passed.Packets, dropped+f.Dropped.Packets
		}
	}
	return passed, dropped
}

func TestNetworkChangesWhileTheMachineRuns(t *testing.T) {
	f, ports := openNATs(t, Network{}, 2)
	stun := listenUDP(t, f.lab.Inside, Address)
	a, b := listenUDP(t, ports[0].Inside, ports[0].Addr), listenUDP(t, ports[1].Inside, ports[1].Addr)
	if got := a.seen(stun.at(), stun, true); got != a.at() || f.Public(name(0)).IsValid() {
		t.Errorf("without NAT it is seen from %s, want %s", got, a.at())
	}
	change := func(n Network) {
		t.Helper()
		if err := f.SetNetwork(name(0), n); err != nil {
			t.Fatal(err)
		}
	}
	change(Network{BlockUDP: true})
	if a.seen(stun.at(), stun, false).IsValid() {
		t.Error("blocked UDP passes a direct cable")
	}
	change(Network{NAT: PortRestricted})
	first := a.seen(stun.at(), stun, true)
	if first.Addr() != f.Public(name(0)) || first.Addr() == ports[0].Addr {
		t.Errorf("behind a NAT it is seen from %s, want %s", first, f.Public(name(0)))
	}
	if a.seen(b.at(), b, false).IsValid() || b.seen(first, a, false).IsValid() {
		t.Error("a CVM without NAT is reached, or reaches another")
	}
	change(Network{NAT: PortRestricted, BlockUDP: true})
	if a.seen(stun.at(), stun, false).IsValid() {
		t.Error("blocked UDP passes the NAT")
	}
	change(Network{NAT: Symmetric, Link: natlab.Link{Delay: 5 * time.Millisecond, RateMbps: 100}, MTUBlackhole: 1300})
	if got := a.seen(stun.at(), stun, true); got.Addr() != first.Addr() || got == first {
		t.Errorf("behind the symmetric NAT it is seen from %s, before from %s", got, first)
	}
	if err := f.Rebind(name(0)); err != nil {
		t.Error(err)
	}
	change(Network{})
	if got := a.seen(stun.at(), stun, true); got != a.at() {
		t.Errorf("without NAT again it is seen from %s, want %s", got, a.at())
	}
	if err := f.Rebind(name(0)); err == nil {
		t.Error("a CVM without NAT was rebound")
	}
	for _, bad := range []Network{{NAT: "cone"}, {MTUBlackhole: 5}, {Link: natlab.Link{Loss: 2}}, {Link: natlab.Link{MTU: 1300}}} {
		if f.SetNetwork(name(0), bad) == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
