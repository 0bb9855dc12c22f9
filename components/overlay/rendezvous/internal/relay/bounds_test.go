package relay

import (
	"net"
	"net/netip"
	"testing"

	"github.com/pion/stun/v2"
)

func TestAnAllocationRemembersNoMoreThanItMay(t *testing.T) {
	a := &allocation{permissions: map[netip.Addr]struct{}{}, channels: map[uint16]struct{}{}}
	peer := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{1, 1, byte(i >> 8), byte(i)}), 5000)
	}
	for i := range 2 * maxPermissions {
		if ok := a.note([]netip.AddrPort{peer(i)}, uint16(0x4000+i%maxChannels)); ok != (i < maxPermissions) {
			t.Fatalf("permission %d: allowed %v", i, ok)
		}
	}
	if a.note([]netip.AddrPort{peer(0)}, 0x7000) || a.note([]netip.AddrPort{peer(0), peer(5000)}, 0) {
		t.Error("more is allowed than may be")
	}
	if !a.note([]netip.AddrPort{peer(0)}, 0x4000) {
		t.Error("an earlier permission is refused")
	}
	if len(a.permissions) != maxPermissions || len(a.channels) != maxChannels {
		t.Errorf("%d permissions and %d channels are remembered, want %d and %d", len(a.permissions), len(a.channels), maxPermissions, maxChannels)
	}
}

func TestOVL11NoPermissionForIPv6(t *testing.T) {
	b := newBench(t)
	r := newRaw(t, b, b.issue(who("c", "db-0", "a")))
	if code, reason := r.do(stun.MethodAllocate, requestUDP()); code != 0 {
		t.Fatalf("allocate: %d %s", code, reason)
	}
	peer := netip.MustParseAddrPort("[2606:4700::1111]:5000")
	for _, method := range []stun.Method{stun.MethodCreatePermission, stun.MethodChannelBind} {
		if code, _ := r.do(method, peerAttrs(peer, method)...); code != 403 {
			t.Errorf("%s: answer %d, want 403", method, code)
		}
	}
}

// Datagrams from senders that the owner has not permitted cost the owner nothing.
func TestUnpermittedSendersSpendNothing(t *testing.T) {
	b := newBench(t)
	x, y := b.allocated("udp", b.issue(who("c", "db-0", "a"))), b.allocated("udp", b.issue(who("c", "db-1", "b")))
	// y's relay may reach x's, but x has not asked for it.
	to := x.relayed.LocalAddr().(*net.UDPAddr)
	_, _ = y.relayed.WriteTo([]byte("stranger"), to)
	eventually(t, "a drop", func() bool { return b.meterCounts.of("dropped no permission") > 0 })
	if got := b.meterCounts.bytes(); got != len("stranger") { // as y's, when it was sent
		t.Errorf("%d bytes were charged, want %d", got, len("stranger"))
	}
}
