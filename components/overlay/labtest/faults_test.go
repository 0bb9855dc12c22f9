package labtest

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"cadre.dev/lab/natlab"
	"cadre.dev/overlay"
	"cadre.dev/overlay/labtest/overlaynode"
)

// wan is a short way.
var wan = natlab.Link{Delay: 5 * time.Millisecond}

// udpPair is two nodes on a direct UDP path with a relay behind it.
func (w *world) udpPair() (*node, *node) {
	a, b := w.pair(natlab.PortRestricted, natlab.PortRestricted, wan)
	a.paths, b.paths = withoutTCP, withoutTCP
	w.both(a, b, overlay.PathDirectUDP)
	return a, b
}

// watching echoes from a to b while a fault is made, on one connection.
func watching(a, b *node, d time.Duration) func() overlaynode.Response {
	return a.begin(overlaynode.Request{Verb: overlaynode.Watch, Addr: a.echo(b), For: d, Every: 10 * time.Millisecond, Bytes: 200})
}

// redialing echoes each time on a new connection.
func redialing(a, b *node, d time.Duration) func() overlaynode.Response {
	return a.begin(overlaynode.Request{
		Verb: overlaynode.Watch, Addr: a.echo(b), For: d, Every: 20 * time.Millisecond, Limit: 500 * time.Millisecond, Fresh: true, Bytes: 200,
	})
}

// works fails unless an echo comes back both ways.
func works(a, b *node) {
	a.w.t.Helper()
	for _, way := range [][2]*node{{a, b}, {b, a}} {
		way[0].ask(overlaynode.Request{Verb: overlaynode.Dial, Addr: way[0].echo(way[1]), For: 20 * time.Second, Limit: time.Second})
	}
}

// helpless is a gap that ends only with the carriers' dead-man timers of 8 s. The real gaps
// are far shorter, and the benchmark measures them.
const helpless = 5 * time.Second

func report(t *testing.T, what string, r overlaynode.Response) {
	t.Helper()
	if r.Gap >= helpless {
		t.Errorf("%s: a gap of %v: no other path took over", what, r.Gap)
	}
	t.Logf("%s: longest gap %v, %d echoes, %d lost connections, median %v", what, r.Gap.Round(time.Millisecond), r.Echoes, r.Reconnects, r.RTT)
}

func TestUDPPathDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.udpPair()
	a.awaitStandby(b)
	b.awaitStandby(a)
	watch := watching(a, b, 5*time.Second)
	w.pause(500 * time.Millisecond)
	w.must(w.lab.Partition("host-a", "host-b", true))
	a.awaitPath(b, overlay.PathRelay)
	w.pause(time.Second)
	w.must(w.lab.Partition("host-a", "host-b", false))
	r := watch()
	report(t, "direct UDP path dies, relay takes over", r)
	if r.Reconnects > 0 {
		t.Errorf("the stream was lost %d times; it must move", r.Reconnects)
	}
}

// awaitStandby waits until a relayed path stands by.
func (n *node) awaitStandby(p *node) {
	n.w.t.Helper()
	n.await(p, "relay standby", 20*time.Second, func(s overlay.SessionInfo) bool {
		return !s.Searching && slices.ContainsFunc(s.Candidates, func(c overlay.Candidate) bool { return c.Kind == overlay.PathRelay })
	})
}

// awaitRelays waits until so many relayed paths were found, and the search is over: on a busy
// machine the first is in use long before that.
func (n *node) awaitRelays(p *node, count int) {
	n.w.t.Helper()
	n.await(p, "a path by each relay", 20*time.Second, func(s overlay.SessionInfo) bool {
		remotes := map[string]bool{}
		for _, c := range s.Candidates {
			if c.Kind == overlay.PathRelay {
				remotes[c.Remote] = true
			}
		}
		return !s.Searching && len(remotes) >= count
	})
}

func TestDirectTCPDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gatewayUp()
	a, b := w.pair(natlab.PortRestricted, natlab.PortRestricted, wan)
	w.both(a, b, overlay.PathDirectTCP)
	a.await(b, "standby", 10*time.Second, func(s overlay.SessionInfo) bool { return len(s.Standby) > 0 })
	watch := redialing(a, b, 6*time.Second)
	w.pause(time.Second)
	w.must(w.lab.Partition("host-a", "host-b", true))
	a.await(b, "gateway", 20*time.Second, func(s overlay.SessionInfo) bool { return s.Path == overlay.PathGateway })
	r := watch()
	report(t, "direct TCP dies, the gateway is standby", r)
	w.must(w.lab.Partition("host-a", "host-b", false))
	works(a, b)
}

func TestPeerRestarts(t *testing.T) {
	t.Parallel()
	for _, newBoot := range []bool{true, false} {
		name := map[bool]string{true: "new boot", false: "same boot"}[newBoot]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, b := w.pair(natlab.PortRestricted, natlab.PortRestricted, wan)
			w.both(a, b, overlay.PathDirectTCP)
			watch := redialing(a, b, 6*time.Second)
			w.pause(500 * time.Millisecond)
			b.Kill()
			if newBoot {
				b.renew()
				a.ask(overlaynode.Request{Verb: overlaynode.SetPeers, Peers: a.peers()})
			}
			b.run()
			begin := time.Now()
			a.await(b, "direct path", 20*time.Second, func(s overlay.SessionInfo) bool {
				return s.Path == overlay.PathDirectTCP && s.PathSince.After(begin) && s.BootID == b.boot
			})
			t.Logf("direct again %v after the new process ran", time.Since(begin).Round(time.Millisecond))
			report(t, name, watch())
			works(a, b)
		})
	}
}

func TestNATRebinds(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]overlay.PathKind{"udp": overlay.PathDirectUDP, "tcp": overlay.PathDirectTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, b := w.pair(natlab.PortRestricted, natlab.AddressRestricted, wan)
			if kind == overlay.PathDirectUDP {
				a.paths, b.paths = withoutTCP, withoutTCP
			}
			w.both(a, b, kind)
			watch, again := watching(a, b, 5*time.Second), redialing(a, b, 5*time.Second)
			w.pause(500 * time.Millisecond)
			w.must(w.lab.Rebind("host-a"))
			r := watch()
			report(t, "rebinding, one connection", r)
			report(t, "rebinding, new connections", again())
			if kind == overlay.PathDirectUDP && r.Reconnects > 0 {
				t.Errorf("the stream was lost %d times; it must move", r.Reconnects)
			}
			works(a, b)
			a.awaitPath(b, kind)
		})
	}
}

func TestRendezvousDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.pair(natlab.PortRestricted, natlab.PortRestricted, wan)
	w.both(a, b, overlay.PathDirectTCP)
	w.servers[0].Kill()
	works(a, b)
	host, err := w.lab.Behind("host-c", natlab.PortRestricted, wan)
	w.must(err)
	c := w.place("db-2", host).run()
	a.ask(overlaynode.Request{Verb: overlaynode.SetPeers, Peers: a.peers()})
	w.pause(time.Second)
	if s := a.session(c); s.Path != overlay.PathNone {
		t.Errorf("%s to %s: path %s without a rendezvous", a.slot, c.slot, s.Path)
	}
	works(a, b)
	begin := time.Now()
	w.servers[0].run()
	a.awaitPath(c, overlay.PathDirectTCP)
	t.Logf("direct %v after the rendezvous came back", time.Since(begin).Round(time.Millisecond))
	works(a, c)
	works(a, b)
}

func TestRelayDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rendezvousAt("other", natlab.Link{})
	a, b := w.pair(natlab.Symmetric, natlab.Symmetric, wan)
	a.paths, b.paths = withoutTCP, withoutTCP
	w.both(a, b, overlay.PathRelay)
	a.awaitRelays(b, 2)
	b.awaitRelays(a, 2)
	watch := redialing(a, b, 6*time.Second)
	w.pause(500 * time.Millisecond)
	w.servers[0].Kill()
	report(t, "one of two relays dies", watch())
	works(a, b)
	w.servers[1].Kill()
	a.awaitPath(b, overlay.PathNone)
	begin := time.Now()
	w.servers[0].run()
	w.servers[1].run()
	// Mailboxes and searches have backed off by now.
	a.await(b, "relay", time.Minute, func(s overlay.SessionInfo) bool { return s.Path == overlay.PathRelay })
	t.Logf("relayed again %v after the relays came back", time.Since(begin).Round(time.Millisecond))
	works(a, b)
}

func TestOneWayLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.udpPair()
	watch := watching(a, b, 6*time.Second)
	w.pause(500 * time.Millisecond)
	w.must(w.lab.OneWay("host-b", "host-a", true))
	a.awaitPath(b, overlay.PathRelay)
	r := watch()
	report(t, "one direction lost", r)
	if r.Reconnects > 0 {
		t.Errorf("the stream was lost %d times; it must move", r.Reconnects)
	}
	w.must(w.lab.OneWay("host-b", "host-a", false))
	works(a, b)
}

func TestMTUBlackHole(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]overlay.PathKind{"udp": overlay.PathDirectUDP, "tcp": overlay.PathDirectTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, b := w.pair(natlab.PortRestricted, natlab.PortRestricted, wan)
			if kind == overlay.PathDirectUDP {
				a.paths, b.paths = withoutTCP, withoutTCP
			}
			w.both(a, b, kind)
			a.bulk(b, time.Second)
			w.must(w.lab.SetMTUBlackhole("host-b", 1300))
			watch := redialing(a, b, 10*time.Second)
			// The stream that meets the hole may die; a later one must not.
			at := netip.AddrPortFrom(b.vip, sinkPort)
			if _, err := a.Ask(overlaynode.Request{Verb: overlaynode.Bulk, Addr: at, For: time.Second, Limit: 8 * time.Second}); err != nil {
				t.Logf("the stream that met the hole: %v", err)
			}
			begin := time.Now()
			var r overlaynode.Response
			var err error
			for tries := time.NewTicker(200 * time.Millisecond); ; <-tries.C {
				r, err = a.Ask(overlaynode.Request{Verb: overlaynode.Bulk, Addr: at, For: time.Second, Limit: 8 * time.Second})
				if err == nil || time.Since(begin) > 40*time.Second {
					tries.Stop()
					break
				}
			}
			w.must(err)
			t.Logf("bulk while packets above 1300 bytes vanish: %.1f Mbps, path %s, after %v", mbps(r), a.session(b).Path, time.Since(begin).Round(time.Millisecond))
			report(t, "black hole", watch())
			works(a, b)
		})
	}
}

// bulk sends to p's sink.
func (n *node) bulk(p *node, d time.Duration) overlaynode.Response {
	n.w.t.Helper()
	at := n.echo(p).Addr()
	return n.ask(overlaynode.Request{Verb: overlaynode.Bulk, Addr: netip.AddrPortFrom(at, sinkPort), For: d})
}

func mbps(r overlaynode.Response) float64 { return float64(r.Bytes) * 8 / 1e6 / r.Took.Seconds() }

func TestLossyPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rendezvousAt("rendezvous", natlab.Link{})
	for i, loss := range []float64{0.01, 0.1} {
		link := natlab.Link{Delay: 5 * time.Millisecond, RateMbps: 50, Loss: loss}
		left, err := w.lab.Behind([]string{"left-1", "left-10"}[i], natlab.PortRestricted, link)
		w.must(err)
		right, err := w.lab.Behind([]string{"right-1", "right-10"}[i], natlab.PortRestricted, wan)
		w.must(err)
		for _, paths := range [][]overlay.PathKind{withoutTCP, nil} {
			d := w.duo(left, right, paths)
			kind := overlay.PathDirectTCP
			if paths != nil {
				kind = overlay.PathDirectUDP
			}
			w.both(d.a, d.b, kind)
			r := d.a.bulk(d.b, 2*time.Second)
			t.Logf("%s at %.0f %% loss, 50 Mbps, 20 ms: %.1f Mbps", kind, loss*100, mbps(r))
			if err := d.carries(); err != nil {
				t.Error(err)
			}
			d.stop()
		}
	}
}
