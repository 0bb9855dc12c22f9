package labtest

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/lab/natlab"
	"cadre.dev/overlay"
	"cadre.dev/overlay/labtest/overlaynode"
)

// canaryPort is a service of every victim's machine, on 127.0.0.1 alone.
const canaryPort = 8500

// hostile makes n's place in the cluster a hostile member's, which is after victim.
func (n *node) hostile(victim *node, shown *node, controlling bool) *overlaynode.Process {
	n.w.t.Helper()
	c := overlaynode.Hostile{Victim: victim.id(), Controlling: controlling, Config: overlaynode.Config{
		Self: n.id(), VIP: n.vip, Cert: n.cert, Key: n.key, CA: n.w.ca.PEM, Rendezvous: n.w.rendezvous,
	}}
	if shown != nil {
		c.ShownCert, c.ShownKey = shown.cert, shown.key
	}
	p, err := overlaynode.StartHostile(n.host, n.w.dir, n.slot+"-hostile", c)
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.w.t.Cleanup(p.Kill)
	return p
}

// TestOVL07_OnlyAllowedPortsAnswer scans every port from an admitted Peer. It is
// TestOVL08's too: services of the target's loopback are not reached.
func TestOVL07_OnlyAllowedPortsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rendezvousAt("rendezvous", natlab.Link{})
	host, err := w.lab.Public("victim")
	w.must(err)
	other, err := w.lab.Public("hostile")
	w.must(err)
	hostile, victim := w.place("db-0", other), w.place("db-1", host)
	victim.canaries, victim.quiet = []uint16{22, 80, canaryPort, 2019}, true
	victim.run()
	r, err := hostile.hostile(victim, nil, true).Ask(overlaynode.Request{
		Verb: overlaynode.Scan, Addr: netip.AddrPortFrom(host.Addr(), uint16(victim.listen)), For: 2 * time.Minute,
	})
	w.must(err)
	t.Logf("%d TCP ports refused, %v answered, UDP %v answered, in %v", r.Refused, r.TCP, r.UDP, r.Took.Round(time.Millisecond))
	if want := []uint16{echoPort, sinkPort, stallPort}; !slices.Equal(r.TCP, want) {
		t.Errorf("TCP ports that answer: %v, want %v", r.TCP, want)
	}
	if want := []uint16{echoPort}; !slices.Equal(r.UDP, want) {
		t.Errorf("UDP ports that answer: %v, want %v", r.UDP, want)
	}
	if r.Refused != 65535-3 {
		t.Errorf("%d TCP ports refused, want %d", r.Refused, 65535-3)
	}
	victim.untouched()
}

// TestOVL08_LoopbackServicesAreNotReached asks for the ports by which agents and
// proxies of the machine itself are reached, as a Peer that offers them.
func TestOVL08_LoopbackServicesAreNotReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.pair(natlab.PortRestricted, natlab.PortRestricted, natlab.Link{})
	b.canaries = []uint16{closedPort}
	w.both(a, b, overlay.PathDirectTCP)
	if _, err := a.Ask(overlaynode.Request{Verb: overlaynode.Dial, Addr: netip.AddrPortFrom(b.vip, closedPort), For: time.Second}); err == nil {
		t.Error("a port that the target does not accept answered")
	}
	b.untouched()
	works(a, b)
}

// untouched fails if any data reached a forbidden service.
func (n *node) untouched() {
	n.w.t.Helper()
	if got := n.ask(overlaynode.Request{Verb: overlaynode.Stats}).Canaries; got != 0 {
		n.w.t.Errorf("services of %s's loopback were reached %d times", n.slot, got)
	}
}

// An admitted member takes part in finding the path, and a foreign certificate shows up
// on it.
func TestOVL05_ForeignCertificatesOnDirectPaths(t *testing.T) {
	t.Parallel()
	foreign := newWorld(t)
	w := newWorld(t)
	w.rendezvousAt("rendezvous", natlab.Link{})
	host, err := w.lab.Behind("victim", natlab.PortRestricted, natlab.Link{})
	w.must(err)
	other, err := w.lab.Behind("hostile", natlab.PortRestricted, natlab.Link{})
	w.must(err)
	// The victim is in the middle: below it are sides that begin, above it others.
	below, victim, above, third := w.place("db-0", other), w.place("db-1", host), w.place("db-2", other), w.place("db-3", other)
	victim.run()
	for _, c := range []struct {
		name     string
		as       *node
		shown    func(as *node) *node
		accepted bool
	}{
		{"the genuine one", above, func(as *node) *node { return as }, true},
		{"another CA's, as acceptor", above, func(as *node) *node { return foreign.place(as.slot, other) }, false},
		{"another peer's, as acceptor", above, func(*node) *node { return third }, false},
		{"another boot's, as acceptor", above, func(as *node) *node { n := *as; n.renew(); return &n }, false},
		{"another CA's, as dialer", below, func(as *node) *node { return foreign.place(as.slot, other) }, false},
		{"another boot's, as dialer", below, func(as *node) *node { n := *as; n.renew(); return &n }, false},
	} {
		p := c.as.hostile(victim, c.shown(c.as), c.as == below)
		r, err := p.Ask(overlaynode.Request{Verb: overlaynode.Impostor})
		p.Kill()
		switch {
		case err != nil:
			t.Errorf("%s: no connection to show a certificate on: %v", c.name, err)
		case c.accepted != (r.Refusal == ""):
			t.Errorf("%s: refusal %q, want accepted %v", c.name, r.Refusal, c.accepted)
		default:
			t.Logf("%s: %q", c.name, r.Refusal)
		}
		if s := victim.session(c.as); s.State == overlay.SessionUp && !c.accepted {
			t.Errorf("%s: the victim has a session: %+v", c.name, s)
		}
	}
}

// TestOVL10_InjectedCandidatesAreRefused aims a victim at itself.
func TestOVL10_InjectedCandidatesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rendezvousAt("rendezvous", natlab.Link{})
	host, err := w.lab.Behind("victim", natlab.PortRestricted, natlab.Link{})
	w.must(err)
	other, err := w.lab.Behind("hostile", natlab.PortRestricted, natlab.Link{})
	w.must(err)
	hostile, victim := w.place("db-0", other), w.place("db-1", host)
	victim.canaries = []uint16{canaryPort}
	victim.run()
	var targets []netip.AddrPort
	for _, a := range []string{"127.0.0.1", "127.50.0.2", "169.254.169.254", "0.0.0.0", "224.0.0.1", "100.64.0.2", "255.255.255.255"} {
		targets = append(targets, netip.AddrPortFrom(netip.MustParseAddr(a), canaryPort))
	}
	p := hostile.hostile(victim, nil, true)
	_, err = p.Ask(overlaynode.Request{Verb: overlaynode.Inject, Targets: targets})
	w.must(err)
	logged := func() int {
		n := 0
		for line := range strings.Lines(victim.text()) {
			if strings.Contains(line, "candidate refused") && strings.Contains(line, "CANDIDATE_FORBIDDEN") {
				n++
			}
		}
		return n
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(40 * time.Second); logged() < 7*len(targets) && time.Now().Before(limit); {
		<-tick.C
	}
	w.pause(time.Second) // for checks that should not be
	t.Logf("%d candidates refused", logged())
	if want := 7 * len(targets); logged() < want { // one over TCP, six over ICE
		t.Errorf("%d candidates refused, want %d", logged(), want)
	}
	victim.untouched()
}
