package limit

import "net/netip"

// Source is the address range that a client gets at no cost: an IPv4 address, or a /64
// of IPv6, which has unlimited addresses.
func Source(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address: all of these are one source
	}
	return p
}
