package relay

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pion/stun/v2"

	"cadre.dev/overlay/rendezvous/internal/credential"
	"cadre.dev/overlay/rendezvous/internal/limit"
)

func TestSTUN(t *testing.T) {
	b := newBench(t)
	for _, network := range []string{"udp", "tcp"} {
		c := b.client(network, credential.Credential{})
		got, err := c.SendBindingRequest()
		if err != nil {
			t.Fatalf("%s: %v", network, err)
		}
		if !strings.HasPrefix(got.String(), "127.0.0.1:") {
			t.Errorf("%s: mapped address %s", network, got)
		}
	}
}

func TestRelayToRelay(t *testing.T) {
	b := newBench(t)
	x := b.allocated("udp", b.issue(who("c", "db-0", "a")))
	y := b.allocated("tcp", b.issue(who("c", "db-1", "b")))
	// Each opens its side first, as ICE does.
	_, _ = y.relayed.WriteTo([]byte("open"), x.relayed.LocalAddr())
	exchange(t, x, y, "udp to tcp")
	exchange(t, y, x, "tcp to udp")
	exchange(t, x, y, strings.Repeat("x", 1300))
	if got := b.Allocations(); got != 2 {
		t.Errorf("%d allocations, want 2", got)
	}
	x.close()
	y.close()
	eventually(t, "no allocations", func() bool { return b.Allocations() == 0 && b.Connections() == 0 })
}

func TestOVL11RelaysOfTwoClustersDoNotMeet(t *testing.T) {
	b := newBench(t)
	x := b.allocated("udp", b.issue(who("c", "db-0", "a")))
	y := b.allocated("udp", b.issue(who("other", "db-0", "b")))
	_, _ = y.relayed.WriteTo([]byte("open"), x.relayed.LocalAddr())
	if _, err := x.relayed.WriteTo([]byte("x"), y.relayed.LocalAddr()); err == nil {
		_ = y.relayed.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if n, _, err := y.relayed.ReadFrom(make([]byte, 100)); err == nil {
			t.Errorf("%d bytes came from another cluster", n)
		}
	}
	if b.meterCounts.bytes() != 0 {
		t.Errorf("%d bytes were relayed", b.meterCounts.bytes())
	}
}

func TestOVL11FilterTable(t *testing.T) {
	for _, lab := range []bool{false, true} {
		f := addressFilter{allowPrivate: lab, own: []netip.Addr{netip.MustParseAddr("8.8.4.4")}}
		for _, a := range []string{
			"0.0.0.0", "0.1.2.3", "127.0.0.1", "127.10.0.9", "127.50.0.1", "169.254.0.1", "169.254.169.254", "192.0.0.8", "192.0.2.1",
			"192.88.99.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
			"168.63.129.16", "100.100.100.200", "8.8.4.4",
			"::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1",
			"2001:db8::1", "2002:7f00:1::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "fd00:ec2::254", "::ffff:8.8.4.4",
		} {
			if f.allows(netip.MustParseAddr(a)) {
				t.Errorf("lab %v: %s is relayed to", lab, a)
			}
		}
		for _, a := range []string{"10.0.0.1", "100.64.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "198.18.0.1", "fc00::1", "fd12::1", "::ffff:10.0.0.1"} {
			if allowed := f.allows(netip.MustParseAddr(a)); allowed != lab {
				t.Errorf("lab %v: %s allowed: %v", lab, a, allowed)
			}
		}
		for _, a := range []string{"1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "::ffff:1.1.1.1", "2606:4700::1111"} {
			if !f.allows(netip.MustParseAddr(a)) {
				t.Errorf("lab %v: %s is not relayed to", lab, a)
			}
		}
	}
	if (&addressFilter{allowPrivate: true}).allows(netip.Addr{}) {
		t.Error("no address at all is relayed to")
	}
}

func TestOVL11SweepThroughTheProtocol(t *testing.T) {
	b := newBench(t)
	r := newRaw(t, b, b.issue(who("c", "db-0", "a")))
	if code, reason := r.do(stun.MethodAllocate, requestUDP()); code != 0 {
		t.Fatalf("allocate: %d %s", code, reason)
	}
	y := b.allocated("udp", b.issue(who("c", "db-1", "b")))
	neighbour := netip.AddrPortFrom(loopback, uint16(y.relayed.LocalAddr().(*net.UDPAddr).Port))
	for _, c := range []struct {
		peer          string
		permit, bound bool // CreatePermission names no port; a bound channel does
	}{
		{"127.0.0.2:5000", false, false},
		{"169.254.169.254:80", false, false},
		{"10.0.0.1:5000", false, false},
		{"192.168.0.1:5000", false, false},
		{"224.0.0.1:5000", false, false},
		{"0.0.0.0:5000", false, false},
		{"[::ffff:127.0.0.2]:5000", false, false},
		{"[::1]:5000", false, false},
		{"[::ffff:169.254.169.254]:5000", false, false},
		{"1.1.1.1:53", true, false},
		{"1.1.1.1:1023", true, false},
		{"1.1.1.1:5000", true, true},
		{b.addr(), true, false}, // the relay's own service port
		{"127.0.0.1:5001", true, false},
		{neighbour.String(), true, true},
	} {
		peer := netip.MustParseAddrPort(c.peer)
		for method, want := range map[stun.Method]bool{stun.MethodCreatePermission: c.permit, stun.MethodChannelBind: c.bound} {
			code, reason := r.do(method, peerAttrs(peer, method)...)
			if (code == 0) != want {
				t.Errorf("%s %s: answer %d %s, want allowed %v", method, peer, code, reason, want)
			}
			if code != 0 && (code != 403 || reason != reasonForbidden) {
				t.Errorf("%s %s: answer %d %s, want 403 %s", method, peer, code, reason, reasonForbidden)
			}
		}
		// Once an address is permitted for one port, the others stay closed.
		if !c.bound {
			r.indicate(peer, "x")
		}
	}
	if b.meterCounts.of("refused "+reasonForbidden) == 0 {
		t.Error("no refusal was counted")
	}
	r.do(stun.MethodRefresh) // everything before it was handled
	if got := b.meterCounts.bytes(); got != 0 {
		t.Errorf("%d bytes were relayed to forbidden peers", got)
	}
}

func TestOVL09NothingIsAmplified(t *testing.T) {
	b := newBench(t)
	conn, err := net.Dial("udp", b.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	buf := make([]byte, 2000)
	build := func(parts ...stun.Setter) []byte {
		return stun.MustBuild(append([]stun.Setter{stun.TransactionID}, parts...)...).Raw
	}
	request := func(m stun.Method) stun.MessageType { return stun.NewType(m, stun.ClassRequest) }
	forged := stun.NewLongTermIntegrity("user", Realm, "guess")
	for name, sent := range map[string][]byte{
		"binding":              build(stun.BindingRequest),
		"bare allocate":        build(request(stun.MethodAllocate)),
		"allocate":             build(request(stun.MethodAllocate), requestUDP()),
		"bare refresh":         build(request(stun.MethodRefresh)),
		"create permission":    build(request(stun.MethodCreatePermission)),
		"channel bind":         build(request(stun.MethodChannelBind)),
		"forged, stale nonce":  build(request(stun.MethodAllocate), stun.NewUsername("user"), stun.NewRealm(Realm), stun.NewNonce("n"), forged),
		"forged, no attribute": build(request(stun.MethodAllocate), forged),
		"send indication":      build(stun.NewType(stun.MethodSend, stun.ClassIndication)),
		"channel data":         {0x40, 0, 0, 4, 1, 2, 3, 4},
		"short":                {0},
		"noise":                bytes.Repeat([]byte{0xff}, 100),
	} {
		if _, err := conn.Write(sent); err != nil {
			t.Fatal(err)
		}
		// The answer to another request behind it shows that it was handled.
		mark := build(stun.BindingRequest)
		if _, err := conn.Write(mark); err != nil {
			t.Fatal(err)
		}
		got := 0
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		for {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if bytes.Equal(buf[8:20], mark[8:20]) {
				break
			}
			got += n
		}
		if got > 3*len(sent) {
			t.Errorf("%s: %d bytes for %d, at most 3 times", name, got, len(sent))
		}
	}
}

func TestQuotaOfAllocations(t *testing.T) {
	b := newBench(t)
	c := b.issue(who("c", "db-0", "a"))
	var all []*client
	for range 3 {
		all = append(all, b.allocated("udp", c))
	}
	r := newRaw(t, b, c)
	if code, reason := r.do(stun.MethodAllocate, requestUDP()); code != 486 || reason != reasonLimit {
		t.Errorf("one more: answer %d %s, want 486 %s", code, reason, reasonLimit)
	}
	// Another boot of the same slot shares its quota, another slot has its own.
	if code, _ := newRaw(t, b, b.issue(who("c", "db-0", "d"))).do(stun.MethodAllocate, requestUDP()); code != 486 {
		t.Errorf("another boot: answer %d, want 486", code)
	}
	b.allocated("udp", b.issue(who("c", "db-1", "b")))
	all[0].close()
	eventually(t, "room", func() bool { code, _ := r.do(stun.MethodAllocate, requestUDP()); return code == 0 })
}

func TestQuotaOfBytes(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.Bytes = limit.Rate{PerSecond: 1, Burst: 4000} })
	x, y := b.allocated("udp", b.issue(who("c", "db-0", "a"))), b.allocated("udp", b.issue(who("c", "db-1", "b")))
	_, _ = y.relayed.WriteTo([]byte("open"), x.relayed.LocalAddr())
	for range 20 {
		_, _ = x.relayed.WriteTo(make([]byte, 1000), y.relayed.LocalAddr())
	}
	eventually(t, "dropped datagrams", func() bool { return b.meterCounts.of("dropped rate") > 0 })
	if got := b.meterCounts.bytes(); got > 2*4000 {
		t.Errorf("%d bytes were relayed, at most 4000 for each", got)
	}
}

func TestOwnerOfAnAllocationStays(t *testing.T) {
	b := newBench(t)
	r := newRaw(t, b, b.issue(who("c", "db-0", "a")))
	if code, _ := r.do(stun.MethodAllocate, requestUDP()); code != 0 {
		t.Fatalf("allocate: %d", code)
	}
	r.credential = b.issue(who("c", "db-1", "b"))
	if code, _ := r.do(stun.MethodRefresh); code != 441 {
		t.Errorf("refresh by another: answer %d, want 441", code)
	}
	r.credential = b.issue(who("c", "db-0", "a")) // a newer one of the owner
	if code, reason := r.do(stun.MethodRefresh); code != 0 {
		t.Errorf("refresh by the owner: answer %d %s", code, reason)
	}
}

func TestStrangeRequestsOfMembers(t *testing.T) {
	b := newBench(t)
	r := newRaw(t, b, b.issue(who("c", "db-0", "a")))
	for name, c := range map[string]struct {
		method stun.Method
		attrs  []stun.Setter
		code   int
	}{
		"TCP relay":          {stun.MethodAllocate, []stun.Setter{stun.RawAttribute{Type: attrRequested, Value: []byte{6, 0, 0, 0}}}, 442},
		"no transport":       {stun.MethodAllocate, nil, 442},
		"IPv6 relay":         {stun.MethodAllocate, []stun.Setter{requestUDP(), stun.RawAttribute{Type: attrRequestedFamily, Value: []byte{2, 0, 0, 0}}}, 440},
		"even port":          {stun.MethodAllocate, []stun.Setter{requestUDP(), stun.RawAttribute{Type: attrEvenPort, Value: []byte{0x80}}}, 508},
		"refresh of nothing": {stun.MethodRefresh, nil, 437},
	} {
		if code, reason := r.do(c.method, c.attrs...); code != c.code {
			t.Errorf("%s: answer %d %s, want %d", name, code, reason, c.code)
		}
	}
	if b.Allocations() != 0 {
		t.Error("a strange request made an allocation")
	}
}

func TestTCPConnectionsAreBounded(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.ConnectionsPerIP = 2 })
	var conns []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", b.addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	eventually(t, "two connections", func() bool { return b.Connections() == 2 })
	third, err := net.Dial("tcp", b.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	_ = third.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := third.Read(make([]byte, 1)); err == nil || errors.Is(err, errDeadline) {
		t.Errorf("a third connection is served: %v", err)
	}
	// Data that is not STUN ends its connection.
	if _, err := conns[0].Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one connection", func() bool { return b.Connections() == 1 })
}
