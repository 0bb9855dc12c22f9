package ice

import (
	"fmt"
	"testing"

	"github.com/pion/stun/v2"
)

// offer is a search's signaling.
type offer struct {
	epoch      int
	ufrag, pwd string
	candidate  string
}

// end is one end's use of searches, by the rule that the newest epoch wins and,
// in one epoch, the controlling side's search.
type end struct {
	controlling bool
	mux         *Mux
	epoch       int
	searches    map[int]*Search // by epoch
}

func (e *end) restart(t *testing.T, epoch int) offer {
	t.Helper()
	a, err := Start(t.Context(), testConfig(e.mux, e.controlling))
	if err != nil {
		t.Fatal(err)
	}
	e.epoch, e.searches[epoch] = epoch, a
	ufrag, pwd := a.Local()
	return offer{epoch: epoch, ufrag: ufrag, pwd: pwd, candidate: <-a.Candidates()}
}

// take gives an offer or answer to the search of its epoch.
func (e *end) take(t *testing.T, o offer) (answer offer, answered bool) {
	t.Helper()
	if o.epoch < e.epoch {
		// An old search may still be there; its use of the offer must not affect the new
		// one.
		if old := e.searches[o.epoch]; old != nil {
			_ = old.SetRemote(o.ufrag, o.pwd)
		}
		return offer{}, false
	}
	if o.epoch > e.epoch {
		answer, answered = e.restart(t, o.epoch), true
	}
	a := e.searches[o.epoch]
	if err := a.SetRemote(o.ufrag, o.pwd); err != nil {
		t.Fatal(err)
	}
	if err := a.AddRemote(o.candidate); err != nil {
		t.Fatal(err)
	}
	return answer, answered
}

// Both ends restart at once, each offers with new credentials, and old offers
// arrive late or again: the two newest searches find each other all the same.
func TestOVL03_RestartsOfBothEndsConverge(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	x := &end{controlling: true, mux: testMux(t, loopbackConn(t)), searches: make(map[int]*Search)}
	y := &end{mux: testMux(t, loopbackConn(t)), searches: make(map[int]*Search)}
	var late []offer
	for round := range rounds {
		epoch := x.epoch + 1
		var mine, theirs offer
		switch round % 4 {
		case 0: // at once, in the same epoch
			mine, theirs = x.restart(t, epoch), y.restart(t, epoch)
		case 1: // one is an epoch ahead
			mine, theirs = x.restart(t, epoch+1), y.restart(t, epoch)
		case 2:
			mine, theirs = x.restart(t, epoch), y.restart(t, epoch+1)
		case 3: // twice within one signaling delay
			late = append(late, x.restart(t, epoch), y.restart(t, epoch))
			mine, theirs = x.restart(t, epoch+1), y.restart(t, epoch+1)
		}
		for _, o := range late { // offers of the earlier rounds
			_, _ = y.take(t, o)
			_, _ = x.take(t, o)
		}
		answer, ok := y.take(t, mine)
		back, ok2 := x.take(t, theirs)
		if ok {
			_, _ = x.take(t, answer)
		}
		if ok2 {
			_, _ = y.take(t, back)
		}
		if x.epoch != y.epoch {
			t.Fatalf("round %d: epochs %d and %d", round, x.epoch, y.epoch)
		}
		for _, e := range []*end{x, y} {
			f := wait(t, e.searches[e.epoch])
			if f.Kind != Direct {
				t.Fatalf("round %d: found %+v", round, f)
			}
			for epoch, a := range e.searches { // the last two stay side by side
				if epoch < e.epoch-1 {
					_ = a.Close()
					delete(e.searches, epoch)
				}
			}
		}
		late = append(late[:0], mine, theirs)
	}
	for _, e := range []*end{x, y} {
		for _, a := range e.searches {
			_ = a.Close()
		}
	}
}

// A search accepts only the credentials of one search of its Peer.
func TestOVL03_CredentialsOfAnotherSearchAreIgnored(t *testing.T) {
	ma, mb := testMux(t, loopbackConn(t)), testMux(t, loopbackConn(t))
	a, b, other := begin(t, testConfig(ma, true)), begin(t, testConfig(mb, false)), begin(t, testConfig(mb, false))
	if err := a.SetRemote(b.Local()); err != nil {
		t.Fatal(err)
	}
	if err := a.SetRemote(b.Local()); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := a.SetRemote(other.Local()); err == nil {
		t.Error("another search's credentials taken")
	}
	if err := a.SetRemote(a.Local()); err == nil {
		t.Error("own credentials taken")
	}
	credentials(t, a, b)
	trickle(t, a, b)
	trickle(t, b, a)
	wait(t, a)
	wait(t, b)
}

// Several searches between the same two sockets do not take each other's
// messages.
func TestSearchesSideBySide(t *testing.T) {
	ma, mb := testMux(t, loopbackConn(t)), testMux(t, loopbackConn(t))
	var as, bs []*Search
	for range 5 {
		a, b := begin(t, testConfig(ma, true)), begin(t, testConfig(mb, false))
		introduce(t, a, b)
		as, bs = append(as, a), append(bs, b)
	}
	for i := range as {
		wait(t, as[i])
		wait(t, bs[i])
	}
	for _, m := range []*Mux{ma, mb} {
		if s := m.Stats(); s.Searches != 5 || s.Forged != 0 || s.Unknown != 0 || s.Overflow != 0 {
			t.Errorf("mux counts %+v", s)
		}
	}
}

func TestRolesAreSettled(t *testing.T) {
	s := newRelayServer(t)
	for _, controlling := range []bool{true, false} {
		for _, relayed := range []bool{false, true} {
			t.Run(fmt.Sprintf("both controlling %v, relayed %v", controlling, relayed), func(t *testing.T) {
				conf := func() Config {
					c := testConfig(nil, controlling, s.server("udp"))
					if c.RelayOnly = relayed; !relayed {
						c.Mux, c.Servers = testMux(t, loopbackConn(t)), nil
					}
					return c
				}
				a, b := begin(t, conf()), begin(t, conf())
				introduce(t, a, b)
				wait(t, a)
				wait(t, b)
			})
		}
	}
}

func TestRole(t *testing.T) {
	for _, test := range []struct {
		controlling  bool
		ours, theirs string
		want         bool
	}{
		{true, "AAAAc", "BBBBd", true},
		{false, "AAAAd", "BBBBc", false},
		{true, "AAAAc", "BBBBc", false},
		{true, "BBBBc", "AAAAc", true},
		{false, "AAAAd", "BBBBd", false},
		{false, "BBBBd", "AAAAd", true},
		{true, "AAAAc", "some other kind of agent", true},
	} {
		if got := role(test.controlling, test.ours, test.theirs); got != test.want {
			t.Errorf("role(%v, %s, %s) = %v", test.controlling, test.ours, test.theirs, got)
		}
	}
}

// Unauthenticated messages reach no agent, make no path and get no answer.
func TestOVL13_ForgedChecksAreDropped(t *testing.T) {
	ma, mb := testMux(t, loopbackConn(t)), testMux(t, loopbackConn(t))
	a, b := begin(t, testConfig(ma, true)), begin(t, testConfig(mb, false))
	introduce(t, a, b)
	wait(t, a)
	wait(t, b)

	forger := loopbackConn(t)
	defer forger.Close() //nolint:errcheck // a test's socket
	ufrag, _ := a.Local()
	theirs, _ := b.Local()
	before := ma.Stats()
	const many = 200
	for i := range many {
		var m *stun.Message
		switch i % 4 {
		case 0:
			m = stun.MustBuild(stun.TransactionID, stun.BindingRequest, stun.NewUsername(ufrag+":"+theirs),
				stun.NewShortTermIntegrity("not the password, at all"), stun.Fingerprint)
		case 1: // without integrity
			m = stun.MustBuild(stun.TransactionID, stun.BindingRequest, stun.NewUsername(ufrag+":"+theirs))
		case 2: // an answer to nothing
			m = stun.MustBuild(stun.TransactionID, stun.BindingSuccess, stun.Fingerprint)
		case 3: // an unknown search's
			m = stun.MustBuild(stun.TransactionID, stun.BindingRequest, stun.NewUsername("nobody:"+theirs))
		}
		if _, err := forger.WriteTo(m.Raw, ma.conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { return ma.Stats().Received > before.Received+uint64(i) })
	}
	// Repeats of the two honest sides count as received too, so the last may be on its
	// way.
	until(t, func() bool {
		s := ma.Stats()
		return s.Forged-before.Forged >= many/2 && s.Unknown-before.Unknown >= many/2
	})
	if s := ma.Stats(); s.Forged-before.Forged != many/2 {
		t.Errorf("forged %d, want %d", s.Forged-before.Forged, many/2)
	}
	if valid := a.known.valid(); len(valid) != 1 {
		t.Errorf("valid addresses: %v", valid)
	}
	if kind := a.known.kindOf(plain(addrOf(forger))); kind != typePrflx || len(a.known.remotes) != 1 {
		t.Errorf("the forger is known: %v", a.known.remotes)
	}
}
