// Package stunaddr reads the addresses that STUN and TURN messages carry.
package stunaddr

import (
	"fmt"
	"net/netip"

	"github.com/pion/stun/v2"
)

// shortest is an attribute with an address of IPv4 (RFC 8489, 14.2): family, port, four bytes.
const shortest = 8

// Read is the first address that m has in attribute t, unmapped; its port may be 0. The length is
// checked before the library reads the value: the sender may be anyone, and stun v2 reads a
// malformed value without bounds (GO-2026-6163).
func Read(m *stun.Message, t stun.AttrType) (netip.AddrPort, error) {
	value, err := m.Get(t)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if len(value) < shortest {
		return netip.AddrPort{}, fmt.Errorf("%d bytes are no address", len(value))
	}
	var x stun.XORMappedAddress
	if err := x.GetFromAs(m, t); err != nil {
		return netip.AddrPort{}, err
	}
	ip, ok := netip.AddrFromSlice(x.IP)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%d bytes are no IP address", len(x.IP))
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(x.Port)), nil
}
