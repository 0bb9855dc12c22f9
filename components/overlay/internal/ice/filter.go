package ice

import (
	"fmt"
	"net/netip"
)

// AllowedCandidate reports whether a candidate, ours or the Peer's, may have this
// address. It returns nil for a permitted address, otherwise the error wraps ErrForbidden
// (OVL-10). private allows ranges that are used inside networks: RFC 1918, the
// benchmarking range and unique local IPv6. The shared range of RFC 6598 is never
// allowed: the underlay's virtual addresses live there. IPv4-mapped IPv6 counts as the
// IPv4 address it carries; an address with a zone is refused.
func AllowedCandidate(addr netip.Addr, private bool) error {
	return policy{private: private}.check(addr)
}

// policy is the address filter of one search. The zero value is the strictest.
type policy struct {
	private  bool
	loopback bool // tests only
}

func (p policy) check(addr netip.Addr) error {
	if !addr.IsValid() || addr.Zone() != "" {
		return fmt.Errorf("%w: %v is not a plain address", ErrForbidden, addr)
	}
	addr = addr.Unmap()
	if p.loopback && addr.IsLoopback() {
		return nil
	}
	for _, r := range neverRanges {
		if r.prefix.Contains(addr) {
			return fmt.Errorf("%w: %v is %s", ErrForbidden, addr, r.name)
		}
	}
	if p.private {
		return nil
	}
	for _, r := range privateRanges {
		if r.prefix.Contains(addr) {
			return fmt.Errorf("%w: %v is %s", ErrForbidden, addr, r.name)
		}
	}
	return nil
}

type addressRange struct {
	prefix netip.Prefix
	name   string
}

// neverRanges lead to this machine itself, to its host's services, or nowhere. IPv6
// ranges that carry an IPv4 address are refused whole: a translator would turn them into
// addresses this list names.
var neverRanges = ranges(
	"0.0.0.0/8", "this network",
	"127.0.0.0/8", "loopback and the service addresses",
	"169.254.0.0/16", "link-local, with the metadata service",
	"100.64.0.0/10", "the overlay's virtual addresses",
	"168.63.129.16/32", "a metadata service",
	"192.0.0.0/24", "reserved for protocols, with a metadata service",
	"192.0.2.0/24", "for documentation",
	"198.51.100.0/24", "for documentation",
	"203.0.113.0/24", "for documentation",
	"192.88.99.0/24", "the 6to4 relay",
	"224.0.0.0/4", "multicast",
	"240.0.0.0/4", "reserved or broadcast",

	"::/96", "unspecified, loopback or IPv4-compatible",
	"64:ff9b::/96", "translated IPv4",
	"64:ff9b:1::/48", "translated IPv4",
	"100::/64", "discarded",
	"2001::/23", "reserved for protocols, with tunnels",
	"2001:db8::/32", "for documentation",
	"2002::/16", "tunnelled IPv4",
	"3fff::/20", "for documentation",
	"5f00::/16", "segment routing",
	"fd00:ec2::/32", "a metadata service",
	"fe80::/10", "link-local",
	"fec0::/10", "site-local",
	"ff00::/8", "multicast",
)

var privateRanges = ranges(
	"10.0.0.0/8", "private",
	"172.16.0.0/12", "private",
	"192.168.0.0/16", "private",
	"198.18.0.0/15", "for benchmarks",
	"fc00::/7", "private",
)

func ranges(pairs ...string) []addressRange {
	list := make([]addressRange, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, addressRange{prefix: netip.MustParsePrefix(pairs[i]), name: pairs[i+1]})
	}
	return list
}
