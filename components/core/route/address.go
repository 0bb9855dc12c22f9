package route

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
)

// Space has the VIPs of all routes of a cluster.
var Space = netip.MustParsePrefix("127.10.0.0/16")

// ErrExhausted: no address or port is left to give.
var ErrExhausted = errors.New("none is left")

// Record is the value of routes/<route>. It is never removed: an address in an application's
// configuration leads to that route or nowhere.
type Record struct {
	Route string     `json:"route"`
	VIP   netip.Addr `json:"vip"`
	// Group that declares the route, or did last.
	Group string `json:"group"`
	// Term of the leader that wrote it.
	Term uint64 `json:"term,omitempty"`
}

// Check is an error when r is no record of the route name.
func (r Record) Check(name string) error {
	switch {
	case r.Route != name:
		return fmt.Errorf("route: is %q, and the key names %q", r.Route, name)
	case !r.VIP.Is4() || !Space.Contains(r.VIP):
		return fmt.Errorf("vip: %s lies outside of %s", r.VIP, Space)
	}
	return nil
}

// allot gives name a free address. The search starts at a hash of the name, so that a rebuilt
// cluster gives most routes their old addresses.
func allot(name string, taken map[netip.Addr]bool) (netip.Addr, error) {
	const size = 1 << 16
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // a hash never fails to write
	base := Space.Addr().As4()
	for i := range uint32(size) {
		n := (h.Sum32() + i) % size
		host := n & 0xff
		if host == 0 || host == 0xff { // some programs take these for a network or a broadcast address
			continue
		}
		addr := netip.AddrFrom4([4]byte{base[0], base[1], byte(n >> 8), byte(host)}) //nolint:gosec // As4 has four
		if !taken[addr] {
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("give route %s an address of %s: %w", name, Space, ErrExhausted)
}
