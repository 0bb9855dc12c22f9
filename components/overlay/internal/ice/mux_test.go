package ice

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pion/stun/v2"
)

// Candidates may come in any order, early or again.
func TestTrickleInAnyOrder(t *testing.T) {
	s := newRelayServer(t)
	for round := range 20 {
		random := rand.New(rand.NewPCG(1, uint64(round)))
		ma, mb := testMux(t, newNAT(t, false, true, nil)), testMux(t, newNAT(t, false, true, nil))
		server := Server{URL: s.stunURL()}
		a, b := begin(t, testConfig(ma, true, server)), begin(t, testConfig(mb, false, server))
		var steps []func()
		for _, way := range [][2]*Search{{a, b}, {b, a}} {
			from, to := way[0], way[1]
			steps = append(steps, func() { credentials(t, from, to) })
			for c := range from.Candidates() {
				for range 2 {
					steps = append(steps, func() {
						if err := to.AddRemote(c); err != nil {
							t.Error(err)
						}
					})
				}
			}
		}
		random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		for _, step := range steps {
			step()
		}
		for _, x := range []*Search{a, b} {
			if f := wait(t, x); f.Kind != Direct {
				t.Errorf("round %d: found %+v", round, f)
			}
		}
		_, _ = a.Close(), b.Close()
	}
}

func TestGarbageFromThePeer(t *testing.T) {
	ma, mb := testMux(t, loopbackConn(t)), testMux(t, loopbackConn(t))
	a, b := begin(t, testConfig(ma, true)), begin(t, testConfig(mb, false))
	ufrag, pwd := b.Local()
	for _, bad := range [][2]string{
		{"", ""}, {ufrag, ""}, {"", pwd}, {"abc", pwd}, {ufrag, pwd[:21]}, {ufrag + ":x", pwd}, {ufrag, pwd + "\x00"},
		{strings.Repeat("u", 257), pwd}, {ufrag, strings.Repeat("p", 257)}, {ufrag, pwd + " "},
	} {
		if err := a.SetRemote(bad[0], bad[1]); !errors.Is(err, ErrMalformed) {
			t.Errorf("credentials %.40q, %.40q: %v", bad[0], bad[1], err)
		}
	}
	for _, line := range []string{"", "garbage", strings.Repeat("x ", 5000), "h0 1 udp 1 127.0.0.1 99999 typ host"} {
		if err := a.AddRemote(line); !errors.Is(err, ErrMalformed) {
			t.Errorf("candidate %.40q: %v", line, err)
		}
	}
	// Candidates that are well formed and lead nowhere change nothing either.
	for _, line := range []string{"x 1 udp 1 127.0.0.1 9 typ host", "x 1 udp 1 10.255.255.1 9 typ relay"} {
		if err := a.AddRemote(line); err != nil {
			t.Error(err)
		}
	}
	introduce(t, a, b)
	if f := wait(t, a); f.Remote != mb.local {
		t.Errorf("found %+v", f)
	}
}

// A searcher without the Peer's password finds nothing: its checks get no answer.
func TestOVL13_WrongCredentialsFindNothing(t *testing.T) {
	ma, mb := testMux(t, loopbackConn(t)), testMux(t, loopbackConn(t))
	a, b := begin(t, testConfig(ma, true)), begin(t, testConfig(mb, false))
	ufrag, pwd := b.Local()
	if err := a.SetRemote(ufrag, "x"+pwd[1:]); err != nil {
		t.Fatal(err)
	}
	trickle(t, b, a)
	until(t, func() bool { return mb.Stats().Forged > 10 })
	if s := ma.Stats(); s.Received != 0 {
		t.Errorf("%d answers", s.Received)
	}
	select {
	case <-a.found:
		t.Error("found a path")
	default:
	}
}

func TestFamiliesAndWildcards(t *testing.T) {
	for _, test := range []struct{ network, address string }{
		{"udp4", "0.0.0.0:0"}, {"udp6", "[::1]:0"}, {"udp", ":0"},
	} {
		t.Run(test.network+" "+test.address, func(t *testing.T) {
			var muxes [2]*Mux
			for i := range muxes {
				c, err := net.ListenPacket(test.network, test.address)
				if err != nil {
					t.Skipf("no such socket here: %v", err)
				}
				muxes[i] = testMux(t, c)
			}
			a, b := begin(t, testConfig(muxes[0], true)), begin(t, testConfig(muxes[1], false))
			introduce(t, a, b)
			fa, fb := wait(t, a), wait(t, b)
			for i, f := range []Found{fa, fb} {
				if f.Local.Addr().IsUnspecified() || f.Local.Port() != muxes[i].local.Port() {
					t.Errorf("found %+v", f)
				}
			}
		})
	}
}

func TestMappedAddressIsRefreshed(t *testing.T) {
	s := newRelayServer(t)
	nat := newNAT(t, false, true, nil)
	m, err := newMux(nat, nil, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // its end is not tested
	m.warm(testContext(t), []string{s.udp.String()}, policy{loopback: true})
	first := m.Mapped()
	if len(first) != 1 {
		t.Fatalf("mapped: %v", first)
	}
	nat.mu.Lock() // the NAT forgets and maps to another port
	for key, c := range nat.mappings {
		_ = c.Close()
		delete(nat.mappings, key)
	}
	nat.mu.Unlock()
	until(t, func() bool {
		now := m.Mapped()
		return len(now) == 1 && now[0].Addr != first[0].Addr
	})
	for i := range 2 * maxServers {
		m.cached(net.JoinHostPort("127.0.0.1", string(rune('a'+i))), policy{})
	}
	if n := len(m.servers); n > maxServers {
		t.Errorf("%d servers kept", n)
	}
}

// TestAMappedAddressThatIsCutIsNoAnswer: the whole answer that follows it is taken.
func TestAMappedAddressThatIsCutIsNoAnswer(t *testing.T) {
	m := testMux(t, loopbackConn(t))
	cut, err := stun.Build(stun.TransactionID, stun.BindingSuccess, stun.RawAttribute{Type: stun.AttrXORMappedAddress, Value: []byte{0, 1, 0, 7}})
	if err != nil {
		t.Fatal(err)
	}
	server := netip.MustParseAddrPort("127.0.0.1:3478")
	q := &pendingCheck{to: server, answer: make(chan netip.AddrPort, 1)}
	m.expect(cut.TransactionID, q)
	before := m.Stats().Unknown
	m.dispatch(cut.Raw, server, &stun.Message{Raw: make([]byte, 0, len(cut.Raw))}, time.Now())
	if got := m.Stats().Unknown; got != before+1 {
		t.Errorf("%d messages count as unknown, want one more than %d", got, before)
	}
	if len(q.answer) != 0 {
		t.Errorf("it counts as the answer %v", <-q.answer)
	}
	whole, err := stun.Build(stun.NewTransactionIDSetter(cut.TransactionID), stun.BindingSuccess, &stun.XORMappedAddress{IP: net.IPv4(192, 0, 2, 1), Port: 7})
	if err != nil {
		t.Fatal(err)
	}
	m.dispatch(whole.Raw, server, &stun.Message{}, time.Now())
	if len(q.answer) != 1 || <-q.answer != netip.MustParseAddrPort("192.0.2.1:7") {
		t.Error("the whole answer that follows is not taken")
	}
}

// badConn reports errors as a shared socket does, for messages of others.
type badConn struct {
	net.PacketConn
	bad chan error
}

func (c badConn) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case err := <-c.bad:
		return 0, nil, err
	default:
		return c.PacketConn.ReadFrom(b)
	}
}

func TestReadingSurvivesErrors(t *testing.T) {
	bad := make(chan error, 10)
	for _, err := range []error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.EMSGSIZE, errTimeout{}} {
		bad <- err
	}
	ma, mb := testMux(t, badConn{loopbackConn(t), bad}), testMux(t, loopbackConn(t))
	a, b := begin(t, testConfig(ma, true)), begin(t, testConfig(mb, false))
	introduce(t, a, b)
	wait(t, a)
	if len(bad) != 0 {
		t.Error("not every error was read")
	}
}

type errTimeout struct{}

func (errTimeout) Error() string   { return "deadline of another reader" }
func (errTimeout) Timeout() bool   { return true }
func (errTimeout) Temporary() bool { return true }

func FuzzDispatch(f *testing.F) {
	conn := loopbackConn(f)
	m := testMux(f, conn)
	a := begin(f, testConfig(m, true))
	ufrag, pwd := a.Local()
	if err := a.SetRemote("PEERd", "0123456789012345678901"); err != nil {
		f.Fatal(err)
	}
	for _, s := range [][]stun.Setter{
		{stun.BindingRequest, stun.NewUsername(ufrag + ":PEERd"), stun.Fingerprint},
		{stun.BindingSuccess, &stun.XORMappedAddress{IP: net.IPv4(8, 8, 8, 8), Port: 9}},
		{stun.BindingError, stun.CodeRoleConflict},
	} {
		f.Add(stun.MustBuild(append([]stun.Setter{stun.TransactionID}, s...)...).Raw)
	}
	f.Add(stun.MustBuild(stun.TransactionID, stun.BindingRequest, stun.NewUsername(ufrag+":PEERd"),
		stun.NewShortTermIntegrity(pwd), stun.Fingerprint).Raw)
	from := netip.MustParseAddrPort("127.0.0.1:9")
	f.Fuzz(func(t *testing.T, raw []byte) {
		m.dispatch(raw, from, &stun.Message{}, time.Now())
		if len(a.known.valid()) != 0 {
			t.Errorf("%x made an address valid", raw)
		}
	})
}

func TestChoose(t *testing.T) {
	at := func(n int) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{8, 8, 8, byte(n)}), 1) }
	ms := time.Millisecond
	pair := func(n int, kind Kind, types string, rtt time.Duration) Found {
		l, r, _ := strings.Cut(types, "-")
		return Found{Kind: kind, Remote: at(n), LocalType: l, RemoteType: r, RTT: rtt}
	}
	for _, test := range []struct {
		name string
		list []Found
		want int
	}{
		{"direct before a faster relay", []Found{
			pair(1, Relay, "host-relay", ms), pair(2, Direct, "srflx-srflx", 80*ms)}, 2},
		{"much faster before fewer translations", []Found{
			pair(1, Direct, "host-host", 50*ms), pair(2, Direct, "srflx-srflx", 30*ms)}, 2},
		{"fewer translations before a little faster", []Found{
			pair(1, Direct, "srflx-srflx", 30*ms), pair(2, Direct, "host-host", 31*ms)}, 2},
		{"microseconds do not count", []Found{
			pair(1, Direct, "srflx-srflx", 100*time.Microsecond), pair(2, Direct, "host-host", 900*time.Microsecond)}, 2},
		{"one relay before two", []Found{
			pair(1, Relay, "relay-relay", 0), pair(2, Relay, "relay-host", 0)}, 2},
		{"a measured relay first", []Found{
			pair(1, Relay, "relay-host", 0), pair(2, Relay, "host-relay", 30*ms)}, 2},
		{"a fixed order else", []Found{
			pair(3, Direct, "host-host", ms), pair(2, Direct, "host-host", ms)}, 2},
	} {
		for range 2 { // in either order
			f, ok := choose(test.list)
			if !ok || f.Remote != at(test.want) {
				t.Errorf("%s: chose %v", test.name, f.Remote)
			}
			if len(f.Alternates) != len(test.list)-1 {
				t.Errorf("%s: %d alternates", test.name, len(f.Alternates))
			}
			test.list[0], test.list[1] = test.list[1], test.list[0]
		}
	}
	if _, ok := choose(nil); ok {
		t.Error("chose of nothing")
	}
}
