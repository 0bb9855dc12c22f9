package ice

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func addrOf(c net.PacketConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

func TestOVL10_AddressesOfSpecialPurpose(t *testing.T) {
	const (
		never   = "never"
		private = "private"
		always  = "always"
	)
	for addr, want := range map[string]string{
		"0.0.0.0": never, "0.1.2.3": never,
		"127.0.0.1": never, "127.10.0.1": never, "127.50.0.1": never, "127.255.255.255": never,
		"169.254.169.254": never, "169.254.0.1": never,
		"100.64.0.1": never, "100.127.255.255": never, "100.100.100.200": never,
		"168.63.129.16": never, "192.0.0.192": never, "192.0.2.1": never, "198.51.100.7": never,
		"203.0.113.9": never, "192.88.99.1": never,
		"224.0.0.1": never, "239.255.255.250": never, "240.0.0.1": never, "255.255.255.255": never,
		"::": never, "::1": never, "::7f00:1": never, "fe80::1": never, "febf::1": never, "fec0::1": never,
		"ff02::1": never, "fd00:ec2::254": never, "2001:db8::1": never, "2001::1": never,
		"2002:7f00:1::": never, "64:ff9b::a9fe:a9fe": never, "64:ff9b:1::1": never, "100::1": never,
		"::ffff:127.0.0.1": never, "::ffff:169.254.169.254": never, "::ffff:0.0.0.0": never,
		"fe80::1%eth0": never, "2600::1%eth0": never,
		"10.0.0.1": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.1.1": private,
		"198.18.0.1": private, "198.19.255.255": private,
		"fd12::1": private, "fc00::1": private, "::ffff:10.0.0.1": private,
		"8.8.8.8": always, "172.15.255.255": always, "172.32.0.0": always, "100.128.0.1": always,
		"100.63.255.255": always, "198.17.255.255": always, "198.20.0.1": always, "::ffff:8.8.8.8": always,
		"2600::1": always, "2a00:1450::1": always,
	} {
		ip := netip.MustParseAddr(addr)
		for _, allowed := range []bool{false, true} {
			ok := want == always || want == private && allowed
			err := AllowedCandidate(ip, allowed)
			if (err == nil) != ok || err != nil && !errors.Is(err, ErrForbidden) {
				t.Errorf("AllowedCandidate(%s, %v) = %v, want allowed %v", addr, allowed, err, ok)
			}
		}
	}
	if AllowedCandidate(netip.Addr{}, true) == nil {
		t.Error("no address is allowed")
	}
}

func TestOVL10_RemoteCandidates(t *testing.T) {
	m := testMux(t, loopbackConn(t))
	conf := testConfig(m, true)
	conf.AllowLoopback = false
	a := begin(t, conf)
	for _, test := range []struct {
		line string
		want error
	}{
		{"h0 1 udp 2130706431 10.1.2.3 4000 typ host", nil},
		{"h0 1 UDP 2130706431 2600::1 4000 typ host", nil},
		{"s0 1 udp 1694498815 8.8.8.8 4000 typ srflx raddr 10.0.0.1 rport 9", nil},
		{"r0 1 udp 16777215 9.9.9.9 4000 typ relay", nil},
		{"h0 1 udp 1 127.0.0.1 4000 typ host", ErrForbidden},
		{"h0 1 udp 1 ::ffff:127.0.0.1 4000 typ host", ErrForbidden},
		{"h0 1 udp 1 ::ffff:7f00:1 4000 typ host", ErrForbidden},
		{"r0 1 udp 1 169.254.169.254 80 typ relay", ErrForbidden},
		{"s0 1 udp 1 224.0.0.1 4000 typ srflx", ErrForbidden},
		{"h0 1 udp 1 0.0.0.0 4000 typ host", ErrForbidden},
		{"h0 1 udp 1 100.127.0.9 4000 typ host", ErrForbidden},
		{"h0 1 udp 1 0x7f.1 4000 typ host", ErrMalformed},
		{"h0 1 udp 1 127.1 4000 typ host", ErrMalformed},
		{"h0 1 udp 1 010.0.0.1 4000 typ host", ErrMalformed},
		{"h0 1 udp 1 fe80::1%lo 4000 typ host", ErrMalformed},
		{"h0 1 udp 1 0b6a4f2e-1b7e-4d3f.local 4000 typ host", ErrMalformed},
		{"h0 1 udp 1 example.com 4000 typ host", ErrMalformed},
		{"h0 1 tcp 1 10.1.2.4 4000 typ host tcptype active", ErrMalformed},
		{"h0 1 tcp 1 10.1.2.4 4000 typ host", ErrMalformed},
		{"h0 2 udp 1 10.1.2.4 4000 typ host", ErrMalformed},
		{"h0 1 udp 0 10.1.2.4 4000 typ host", ErrMalformed},
		{"h0 1 udp 4294967296 10.1.2.4 4000 typ host", ErrMalformed},
		{"h0 1 udp 1 10.1.2.4 0 typ host", ErrMalformed},
		{"h0 1 udp 1 10.1.2.4 65536 typ host", ErrMalformed},
		{"h0 1 udp 1 10.1.2.4 -1 typ host", ErrMalformed},
		{"h0 1 udp 1 10.1.2.4 4000 typ prflx", ErrMalformed},
		{"h0 1 udp 1 10.1.2.4 4000 typ host generation 0", ErrMalformed},
		{"candidate:h0 1 udp 1 10.1.2.4 4000 typ host", ErrMalformed},
		{"", ErrMalformed},
		{"h0 1 udp 1 10.1.2.4 4000 typ host\n", ErrMalformed},
		{strings.Repeat("h", MaxCandidateLen) + " 1 udp 1 10.1.2.4 4000 typ host", ErrMalformed},
	} {
		if err := a.AddRemote(test.line); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("AddRemote(%.80q) = %v, want %v", test.line, err, test.want)
		}
	}
	for i := a.remotes; i < MaxCandidates; i++ {
		if err := a.AddRemote(fmt.Sprintf("h0 1 udp 1 10.9.9.%d 4000 typ host", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.AddRemote("h0 1 udp 1 10.1.2.3 4000 typ host"); err != nil {
		t.Errorf("a known candidate again: %v", err)
	}
	if err := a.AddRemote("h0 1 udp 1 10.9.9.99 4000 typ host"); !errors.Is(err, ErrTooMany) {
		t.Errorf("candidate %d: %v", MaxCandidates+1, err)
	}
}

func TestOVL10_OwnOffersPassTheFilter(t *testing.T) {
	// A wildcard socket has every address of the machine, loopback included.
	wild, err := net.ListenPacket("udp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	s := newRelayServer(t) // its mapped and relayed addresses are loopback ones
	for _, test := range []struct {
		name string
		conn net.PacketConn
	}{{"wildcard", wild}, {"loopback", loopbackConn(t)}} {
		t.Run(test.name, func(t *testing.T) {
			conf := testConfig(testMux(t, test.conn), true)
			conf.AllowLoopback = false
			a := begin(t, conf)
			for line := range a.Candidates() {
				c, err := parseCandidate(line)
				if err != nil || AllowedCandidate(c.addr.Addr(), true) != nil {
					t.Errorf("offered %q: %v", line, err)
				}
			}
		})
	}
	lied := &Search{
		log: slog.New(slog.DiscardHandler), policy: policy{private: true}, gatherers: 1,
		candidates: make(chan string, MaxCandidates), offered: make(map[netip.AddrPort]string),
	}
	lied.offer(typeSrflx, s.udp) // as a server may answer
	lied.offer(typeRelay, s.tcp)
	if len(lied.candidates) != 0 {
		t.Errorf("offered %s", <-lied.candidates)
	}
	if _, err := resolve(t.Context(), s.udp.String(), "ip4", policy{private: true}); !errors.Is(err, ErrForbidden) {
		t.Errorf("a server on loopback: %v", err)
	}
}

// An address that never answers gets few checks, regardless of the Peer's requests.
func TestOVL09_SilentAddressesGetFewChecks(t *testing.T) {
	l := newLedger()
	victim := netip.MustParseAddrPort("8.8.8.8:53")
	now := time.Now()
	if l.mayCheck(victim, now) {
		t.Error("checked an unnamed address")
	}
	l.signaled(victim, typeHost)
	sent, first := 0, 0
	for at := range 60_000 {
		if l.mayCheck(victim, now.Add(time.Duration(at)*time.Millisecond)) {
			sent++
			if at <= 200 {
				first++
			}
		}
	}
	if sent != 40 {
		t.Errorf("%d checks in a minute, want 40", sent)
	}
	if first < 10 {
		t.Errorf("%d checks in the first 200 ms, want at least 10", first)
	}
	l.heardFrom(victim, typePrflx)
	for range 2 {
		if !l.mayCheck(victim, now) {
			t.Error("held back from an address that answered")
		}
	}
}

func TestOVL09_LearnedAddressesAreBounded(t *testing.T) {
	l := newLedger()
	for i := range 100 {
		addr := netip.AddrPortFrom(netip.MustParseAddr("8.8.8.8"), uint16(1000+i))
		if got := l.heardFrom(addr, typePrflx); got != (i < maxLearned) {
			t.Fatalf("address %d: %v", i, got)
		}
	}
	l.signaled(netip.MustParseAddrPort("8.8.8.8:1000"), typeHost)
	if !l.heardFrom(netip.MustParseAddrPort("8.8.8.8:9999"), typePrflx) {
		t.Error("a named address still counts as learned")
	}
}

func FuzzAddRemote(f *testing.F) {
	for _, seed := range []string{
		"h0 1 udp 2130706431 10.1.2.3 4000 typ host", "s0 1 udp 1 8.8.8.8 1 typ srflx raddr ::1 rport 0",
		"h0 1 udp 1 ::ffff:127.0.0.1 4000 typ host", "h0 1 udp 1 x.local 4000 typ host", "",
	} {
		f.Add(seed)
	}
	conn := loopbackConn(f)
	m := testMux(f, conn)
	f.Fuzz(func(t *testing.T, line string) {
		a, err := Start(t.Context(), Config{Mux: m, Private: true})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close() //nolint:errcheck // its end is not tested
		if a.AddRemote(line) != nil {
			if len(a.held) != 0 || len(a.known.remotes) != 0 {
				t.Errorf("refused, but kept: %q", line)
			}
			return
		}
		c := a.held[0]
		if len(line) > MaxCandidateLen || AllowedCandidate(c.addr.Addr(), true) != nil || c.addr.Port() == 0 {
			t.Errorf("took %q as %v", line, c)
		}
		again, err := parseCandidate(c.format())
		if err != nil || again != c {
			t.Errorf("%q reads as %v, written and read again %v, %v", line, c, again, err)
		}
	})
}
