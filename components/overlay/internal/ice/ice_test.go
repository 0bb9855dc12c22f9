package ice

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

func TestHostPairOnLoopback(t *testing.T) {
	ma, mb := testMux(t, loopbackConn(t)), testMux(t, loopbackConn(t))
	start := time.Now()
	a, b := begin(t, testConfig(ma, true)), begin(t, testConfig(mb, false))
	introduce(t, a, b)
	fa, fb := wait(t, a), wait(t, b)
	t.Logf("found after %v", time.Since(start))

	for _, side := range []struct {
		name         string
		f            Found
		local, there netip.AddrPort
	}{{"a", fa, ma.local, mb.local}, {"b", fb, mb.local, ma.local}} {
		f := side.f
		if f.Kind != Direct || f.Local != side.local || f.Remote != side.there || f.Relay != nil {
			t.Errorf("%s found %+v, want direct %v to %v", side.name, f, side.local, side.there)
		}
		if f.Mapped != side.local || f.LocalType != typeHost {
			t.Errorf("%s is %s mapped to %v, want host %v", side.name, f.LocalType, f.Mapped, side.local)
		}
		if f.RTT <= 0 || len(f.Alternates) != 0 {
			t.Errorf("%s: round trip %v, alternates %v", side.name, f.RTT, f.Alternates)
		}
	}
}

func TestReflexivePairs(t *testing.T) {
	for _, test := range []struct {
		name                   string
		symmetricA, symmetricB bool
		filterA, filterB       bool
	}{
		{name: "endpoint-independent, open"},
		{name: "endpoint-independent, filtered", filterA: true, filterB: true},
		{name: "one symmetric, other open", symmetricA: true, filterA: true},
		{name: "one symmetric, other open, roles swapped", symmetricB: true, filterB: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newRelayServer(t)
			ma := testMux(t, newNAT(t, test.symmetricA, test.filterA, nil))
			mb := testMux(t, newNAT(t, test.symmetricB, test.filterB, nil))
			stun := Server{URL: s.stunURL()}
			start := time.Now()
			a, b := begin(t, testConfig(ma, true, stun)), begin(t, testConfig(mb, false, stun))
			introduce(t, a, b)
			fa, fb := wait(t, a), wait(t, b)
			t.Logf("found after %v: %s-%s, %s-%s", time.Since(start),
				fa.LocalType, fa.RemoteType, fb.LocalType, fb.RemoteType)
			for _, f := range []Found{fa, fb} {
				if f.Kind != Direct || !f.Remote.Addr().IsLoopback() || f.LocalType == typeHost {
					t.Errorf("found %+v, want direct through the NATs", f)
				}
			}
			if !test.symmetricA && !test.symmetricB && (fa.Remote != fb.Mapped || fb.Remote != fa.Mapped) {
				t.Errorf("%v and %v are not each other's ends", fa, fb)
			}
		})
	}
}

func TestSecondSearchNeedsNoServer(t *testing.T) {
	s := newRelayServer(t)
	ma, mb := testMux(t, newNAT(t, false, true, nil)), testMux(t, newNAT(t, false, true, nil))
	stun := Server{URL: s.stunURL()}
	for _, m := range []*Mux{ma, mb} {
		m.warm(testContext(t), []string{s.udp.String()}, policy{loopback: true})
		if got := m.Mapped(); len(got) != 1 || !got[0].Addr.IsValid() {
			t.Fatalf("mapped %v, want one", got)
		}
	}
	_ = s.turn.Close()
	a, b := begin(t, testConfig(ma, true, stun)), begin(t, testConfig(mb, false, stun))
	introduce(t, a, b)
	if f := wait(t, a); f.Kind != Direct {
		t.Errorf("found %+v", f)
	}
	wait(t, b)
}

func TestRelayOnly(t *testing.T) {
	for _, transport := range []string{"udp", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			s := newRelayServer(t)
			conf := func(controlling bool) Config {
				return Config{
					Controlling: controlling, RelayOnly: true, AllowLoopback: true,
					Servers: []Server{s.server(transport)},
				}
			}
			start := time.Now()
			a, b := begin(t, conf(true)), begin(t, conf(false))
			introduce(t, a, b)
			fa, fb := wait(t, a), wait(t, b)
			t.Logf("found after %v", time.Since(start))
			for _, f := range []Found{fa, fb} {
				if f.Kind != Relay || f.LocalType != typeRelay || f.RemoteType != typeRelay || f.Relay == nil {
					t.Fatalf("found %+v, want relay to relay", f)
				}
			}
			if fa.Remote != fb.Local || fb.Remote != fa.Local {
				t.Errorf("%v and %v are not each other's ends", fa, fb)
			}
			exchange(t, fa.Relay, fb.Relay)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			if _, err := fa.Relay.Read(make([]byte, 10)); err == nil {
				t.Error("relay outlives its search")
			}
		})
	}
}

func TestRelayWhenDirectIsBlocked(t *testing.T) {
	s := newRelayServer(t)
	block := func(to netip.AddrPort) bool { return to != s.udp }
	ma, mb := testMux(t, newNAT(t, true, true, block)), testMux(t, newNAT(t, true, true, block))
	start := time.Now()
	a := begin(t, testConfig(ma, true, s.server("udp")))
	b := begin(t, testConfig(mb, false, s.server("tcp")))
	introduce(t, a, b)
	fa, fb := wait(t, a), wait(t, b)
	t.Logf("found after %v: %s-%s", time.Since(start), fa.LocalType, fa.RemoteType)
	if fa.Kind != Relay || fb.Kind != Relay || fa.Relay == nil || fb.Relay == nil {
		t.Fatalf("found %+v and %+v, want relays", fa, fb)
	}
	exchange(t, fa.Relay, fb.Relay)
}

func TestRelayIsStandbyOfDirect(t *testing.T) {
	s := newRelayServer(t)
	ma, mb := testMux(t, loopbackConn(t)), testMux(t, loopbackConn(t))
	a := begin(t, testConfig(ma, true, s.server("udp")))
	b := begin(t, testConfig(mb, false, s.server("udp")))
	introduce(t, a, b)
	if f := wait(t, a); f.Kind != Direct {
		t.Errorf("first found %+v, want direct", f)
	}
	// The controlling end's relay reaches the other's socket: one relay is enough.
	via := standby(t, a, func(f Found) bool { return f.Relay != nil })
	there := standby(t, b, func(f Found) bool { return f.Kind == Relay && f.Remote == via.Local })
	if there.Relay != nil {
		t.Errorf("%+v goes through two relays", there)
	}
	const hello = "\x40hello"
	if _, err := mb.conn.WriteTo([]byte(hello), net.UDPAddrFromAddrPort(there.Remote)); err != nil {
		t.Fatal(err)
	}
	if err := via.Relay.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if n, err := via.Relay.Read(buf); err != nil || string(buf[:n]) != hello {
		t.Errorf("relay gave %q, %v", buf[:n], err)
	}
}

// standby waits until an alternate of a is as wanted.
func standby(t *testing.T, a *Search, wanted func(Found) bool) Found {
	t.Helper()
	late := testContext(t).Done()
	f := wait(t, a)
	for {
		if f.Kind != Direct {
			t.Errorf("%s is called better than direct", f.Kind)
		}
		for _, alternate := range f.Alternates {
			if wanted(alternate) {
				return alternate
			}
		}
		select {
		case f = <-a.Better():
		case <-late:
			t.Fatal("nothing stood by")
		}
	}
}
