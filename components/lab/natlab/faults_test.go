package natlab

import (
	"bytes"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// reaches reports whether a datagram of n's gets to the address and back, where
// an echo is at work. It tries harder when it should.
func (n *node) reaches(to netip.AddrPort, size int, should bool) bool {
	n.t.Helper()
	want := bytes.Repeat([]byte{byte(time.Now().UnixNano())}, size)
	buf := make([]byte, 70000)
	tries, wait := 1, 100*time.Millisecond
	if should {
		tries, wait = 5, time.Second
	}
	for range tries {
		if _, err := n.WriteToUDPAddrPort(want, to); err != nil {
			return false
		}
		_ = n.SetReadDeadline(time.Now().Add(wait))
		for {
			got, _, err := n.ReadFromUDPAddrPort(buf)
			if err != nil {
				break
			}
			if bytes.Equal(buf[:got], want) {
				return true
			}
		}
	}
	return false
}

// echo answers datagrams at a socket in h.
func echo(t testing.TB, h *Host) netip.AddrPort {
	t.Helper()
	n := udp(t, h)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 70000)
		for {
			got, from, err := n.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = n.WriteToUDPAddrPort(buf[:got], from)
		}
	}()
	t.Cleanup(func() { n.Close(); <-done })
	return n.addr()
}

func TestFaults(t *testing.T) {
	l := open(t)
	p, q := echo(t, public(t, l, "p")), echo(t, public(t, l, "q"))
	for _, link := range []Link{{}, {Delay: time.Millisecond}} {
		name := "plain"
		if link.Delay > 0 {
			name = "emulated"
		}
		t.Run(name, func(t *testing.T) {
			h, mate := behind(t, l, name, FullCone, link), behind(t, l, name+" mate", NAT{Box: name}, Link{})
			n, m := udp(t, h), udp(t, mate)
			// check compares the present reachability: from the host to p, to q, and from
			// its mate to p.
			check := func(step string, err error, toP, toQ, mateToP bool) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", step, err)
				}
				if a, b, c := n.reaches(p, 100, toP), n.reaches(q, 100, toQ), m.reaches(p, 100, mateToP); a != toP || b != toQ || c != mateToP {
					t.Errorf("%s: host reaches p %v, q %v, mate reaches p %v; want %v, %v, %v", step, a, b, c, toP, toQ, mateToP)
				}
			}
			check("before", nil, true, true, true)
			check("partition", l.Partition(name, "p", true), false, true, true)
			check("healed", l.Partition(name, "p", false), true, true, true)
			check("one way out", l.OneWay(name, "p", true), false, true, true)
			check("healed", l.OneWay(name, "p", false), true, true, true)
			check("one way in", l.OneWay("q", name, true), true, false, true)
			check("healed", l.OneWay("q", name, false), true, true, true)
			check("no udp", l.BlockUDP(name, true), false, false, true)
			check("healed", l.BlockUDP(name, false), true, true, true)
			check("no udp at p", l.BlockUDP("p", true), false, true, false)
			check("healed", l.BlockUDP("p", false), true, true, true)
			check("unplugged", l.Unplug(name, true), false, false, true)
			check("plugged", l.Unplug(name, false), true, true, true)
			check("black hole", l.SetMTUBlackhole(name, 1000), true, true, true)
			if n.reaches(p, 1200, false) {
				t.Error("a large packet got through the black hole")
			}
			check("another link", l.SetLink(name, Link{Delay: 2*time.Millisecond - link.Delay, RateMbps: 100}), true, true, true)
			if n.reaches(p, 1200, false) || !n.reaches(p, 900, true) {
				t.Error("the black hole is gone with the old link")
			}
			check("healed", l.SetMTUBlackhole(name, 0), true, true, true)
			if !n.reaches(p, 1200, true) {
				t.Error("a large packet does not get through after the black hole was healed")
			}
			check("plain", l.SetLink(name, Link{}), true, true, true)
		})
	}
}

// A black hole must see segments before the kernel cuts them.
func TestMTUBlackholeSparesSmallSegments(t *testing.T) {
	l := open(t)
	p := public(t, l, "p")
	h := behind(t, l, "h", PortRestricted, Link{})
	if err := l.SetMTUBlackhole("h", 1400); err != nil {
		t.Fatal(err)
	}
	const size = 30_000 // the most that a socket accepts at once
	for _, c := range []struct {
		mss    int
		passes bool
	}{{1200, true}, {1400, false}} {
		ln := listenTCP(t, p)
		var server net.Conn
		accepted := make(chan error, 1)
		go func() {
			var err error
			server, err = ln.Accept()
			accepted <- err
		}()
		var client net.Conn
		if err := h.Inside(func() (err error) {
			d := net.Dialer{Timeout: 20 * time.Second, Control: maxSegment(c.mss)}
			client, err = d.Dial("tcp4", ln.Addr().String())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := <-accepted; err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if _, err := client.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		wait := 500 * time.Millisecond
		if c.passes {
			wait = 20 * time.Second
		}
		_ = server.SetReadDeadline(time.Now().Add(wait))
		got := 0
		for buf := make([]byte, size); got < size; {
			n, err := server.Read(buf)
			got += n
			if err != nil {
				break
			}
		}
		if (got == size) != c.passes {
			t.Errorf("segments of %d: %d bytes arrived, want all: %v", c.mss, got, c.passes)
		}
	}
}

func TestLinkDelaysAndLoses(t *testing.T) {
	l := open(t)
	p := echo(t, public(t, l, "p"))
	n := udp(t, behind(t, l, "h", PortRestricted, Link{Delay: 15 * time.Millisecond, Jitter: 2 * time.Millisecond}))
	start := time.Now()
	if !n.reaches(p, 100, true) {
		t.Fatal("no echo")
	}
	if took := time.Since(start); took < 26*time.Millisecond {
		t.Errorf("the echo took %v, want at least twice 15 ms less twice 2 ms", took)
	}
	if err := l.SetLink("h", Link{Delay: time.Millisecond, Loss: 1}); err != nil {
		t.Fatal(err)
	}
	if n.reaches(p, 100, false) {
		t.Error("an echo came through a link that loses all")
	}
	got, err := l.Counts("h")
	if err != nil || got.Out.Lost != 1 || got.Out.Packets == 0 {
		t.Errorf("counts %+v, %v", got, err)
	}
}

func TestLinkMTUAnswersTooLarge(t *testing.T) {
	l := open(t)
	p := echo(t, public(t, l, "p"))
	n := udp(t, behind(t, l, "h", PortRestricted, Link{MTU: 1300}))
	// The first is dropped and answered by the box; the host's kernel then fragments.
	if !n.reaches(p, 1400, true) {
		t.Error("the host did not learn the MTU")
	}
	if !n.reaches(p, 1200, true) {
		t.Error("a packet within the MTU does not get through")
	}
}

func TestProcessesEndWithTheLab(t *testing.T) {
	l := open(t)
	h := behind(t, l, "h", PortRestricted, Link{})
	var out strings.Builder
	show := exec.Command("ip", "-4", "-o", "address", "show", "dev", "eth0")
	show.Stdout = &out
	if err := h.Start(show); err != nil {
		t.Skipf("skipped: %v", err)
	}
	if err := show.Wait(); err != nil || !strings.Contains(out.String(), h.Addr().String()) {
		t.Errorf("%q, %v: want %s", out.String(), err, h.Addr())
	}
	sleep := exec.Command("sleep", "1000")
	if err := h.Start(sleep); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sleep.Wait(); err == nil {
		t.Error("the process ended in peace")
	}
	if err := h.Start(exec.Command("true")); err == nil {
		t.Error("a closed lab started a process")
	}
}
