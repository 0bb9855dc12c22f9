package relay

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// ErrPeerForbidden reports a peer that nothing is relayed to (OVL-11).
var ErrPeerForbidden = errors.New("RELAY_PEER_FORBIDDEN")

// lowestPort is the lowest port of a peer: no Peer of ours listens below it, and
// services that should not meet a relay do.
const lowestPort = 1024

// never lists ranges that no Peer of another machine can have.
var never = prefixes(
	"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/128", "::1/128", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
	"2002::/16", "3fff::/20", "5f00::/16", "fe80::/10", "fec0::/10", "ff00::/8",
)

// private lists the ranges of private networks: allowed in labs only.
var private = prefixes(
	"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "fc00::/7",
)

// metadata lists where clouds answer with the secrets of the machine, outside
// of the ranges above.
var metadata = []netip.Addr{
	netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("fd00:ec2::254"),
}

// addressFilter decides which peers may be relayed to. It handles no relay ports: the
// relay decides about its own address.
type addressFilter struct {
	allowPrivate bool

	mu  sync.RWMutex
	own []netip.Addr // of this machine
}

// allows judges the address of a peer. IPv4-mapped addresses are read as IPv4.
func (f *addressFilter) allows(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	if slices.ContainsFunc(never, in) || slices.Contains(metadata, a) {
		return false
	}
	if !f.allowPrivate && slices.ContainsFunc(private, in) {
		return false
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return !slices.Contains(f.own, a)
}

// refresh reads the addresses of this machine again. After an error the earlier list
// stays.
func (f *addressFilter) refresh() {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return
	}
	var own []netip.Addr
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr().Unmap().WithZone(""))
		}
	}
	f.mu.Lock()
	f.own = own
	f.mu.Unlock()
}

func prefixes(all ...string) []netip.Prefix {
	ps := make([]netip.Prefix, 0, len(all))
	for _, s := range all {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}
