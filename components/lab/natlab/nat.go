package natlab

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
)

// Mapping is when a NAT gives a host's port the same public port again (RFC 4787
// section 4.1).
type Mapping string

const (
	// MapEndpointIndependent: for every destination. The public port is the host's own while
	// no other host has it and Rebind was not called. The zero value means this too.
	MapEndpointIndependent Mapping = "endpoint-independent"
	// MapSymmetric: another, random one for each destination address and port
	// ("address and port dependent").
	MapSymmetric Mapping = "symmetric"
)

// Filtering decides which packets to a public port reach the host (RFC 4787 section 5, RFC
// 5382 section 4.3).
type Filtering string

const (
	// FilterAddressPort: from addresses and ports that the host has sent to. The
	// zero value means this too.
	FilterAddressPort Filtering = "address-port"
	// FilterAddress: from any port of addresses that the host has sent to by this mapping.
	FilterAddress Filtering = "address"
	// FilterEndpointIndependent: from everywhere, as long as the port is mapped.
	FilterEndpointIndependent Filtering = "endpoint-independent"
)

// NAT is the behaviour of a box. The zero value is the strict end of RFC 4787's
// requirements: endpoint-independent mapping, address and port dependent filtering.
type NAT struct {
	Mapping   Mapping
	Filtering Filtering
	// Hairpin lets hosts of this box reach each other by their public addresses and ports,
	// regardless of the filtering. The receiver sees the sender's public address.
	Hairpin bool
	// LAN lets hosts of this box reach each other's private addresses; else none does.
	LAN bool
	// BlockUDP drops the host's UDP, both ways. The host may be unblocked later.
	BlockUDP bool
	// RejectSYN answers unsolicited TCP connections with a reset instead of
	// silence, which RFC 5382 forbids and many do.
	RejectSYN bool
	// Box names an existing box to share, by a host of it. The other fields but
	// BlockUDP must then be zero: the box has its behaviour.
	Box string
}

// The usual names of kinds.
var (
	FullCone          = NAT{Filtering: FilterEndpointIndependent}
	AddressRestricted = NAT{Filtering: FilterAddress}
	PortRestricted    = NAT{Filtering: FilterAddressPort}
	Symmetric         = NAT{Mapping: MapSymmetric}
)

func (n NAT) validate() error {
	switch n.Mapping {
	case "", MapEndpointIndependent, MapSymmetric:
	default:
		return fmt.Errorf("nat: mapping %q is not %s or %s", n.Mapping, MapEndpointIndependent, MapSymmetric)
	}
	switch n.Filtering {
	case "", FilterAddressPort, FilterAddress, FilterEndpointIndependent:
	default:
		return fmt.Errorf("nat: filtering %q is not %s, %s or %s", n.Filtering, FilterAddressPort, FilterAddress, FilterEndpointIndependent)
	}
	if rest := (NAT{Box: n.Box, BlockUDP: n.BlockUDP}); n.Box != "" && n != rest {
		return fmt.Errorf("nat: box %q has its behaviour already; leave the other fields out", n.Box)
	}
	return nil
}

const (
	wan = "wan" // the box's interface towards the internet
	lan = "lan" // those towards its hosts, followed by a number

	// memory is how long a box remembers a mapping that nothing leaves by, in
	// seconds: the least that RFC 4787 allows. The kernel's own timeout for
	// established UDP is the same.
	memory = 120
)

// rules are the box's tables. seed 0 keeps the hosts' ports; any other moves
// each to a place of its own, by hash, which is as independent of the destination.
//
// The kernel's tracker alone has address and port dependent filtering: it lets in only
// answers. The rules learn the rest. After translation, each packet that leaves writes its
// public port and the host's own one into the map "owner", and with the destination's
// address into "met". These maps then direct unsolicited packets.
//
// A packet that is not let in is dropped before the tracker confirms it. An entry for it
// would take the tuple that the host's own packet to the same peer needs, and move that
// packet to another port: simultaneous punching would fail at random.
func (n NAT) rules(public netip.Addr, router netip.Addr, seed uint32) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	const port = "meta l4proto { tcp, udp }"
	line("table ip nat {}\ndelete table ip nat\ntable ip nat {")
	line("map owner { type inet_proto . inet_service : ipv4_addr . inet_service; flags dynamic,timeout; timeout %ds; size 65535; }", memory)
	line("map met { type inet_proto . inet_service . ipv4_addr : ipv4_addr . inet_service; flags dynamic,timeout; timeout %ds; size 65535; }", memory)

	line("chain prerouting { type nat hook prerouting priority dstnat;")
	switch n.Filtering {
	case FilterEndpointIndependent:
		line("iifname %s ip daddr %s dnat ip to meta l4proto . th dport map @owner", wan, public)
	case FilterAddress:
		line("iifname %s ip daddr %s dnat ip to meta l4proto . th dport . ip saddr map @met", wan, public)
	case FilterAddressPort: // conntrack alone lets in the answers
	}
	if n.Hairpin {
		line("iifname %s* ip daddr %s dnat ip to meta l4proto . th dport map @owner", lan, public)
	}
	line("}")

	line("chain postrouting { type nat hook postrouting priority srcnat;")
	for _, out := range []string{"oifname " + wan, "iifname " + lan + "* oifname " + lan + "* ct status dnat"} {
		switch {
		case n.Mapping == MapSymmetric:
			line("%s snat to %s fully-random", out, public)
		case seed != 0:
			line("%s %s snat ip to %s : jhash ip saddr . th sport mod 60000 seed %#x offset 2000", out, port, public, seed)
			line("%s snat to %s", out, public)
		default:
			line("%s snat to %s", out, public)
		}
	}
	line("}")

	line("chain learn { type filter hook postrouting priority 300;")
	// Only forwarded packets: the box's own resets have its address too. A flow that began
	// outside has the host in its answers' source.
	const from = "iifname " + lan + "* ip saddr"
	for _, d := range []struct{ direction, host string }{
		{"original", "ct original ip saddr . ct original proto-src"}, {"reply", "ct reply ip saddr . ct reply proto-src"},
	} {
		line("%s %s %s ct direction %s update @owner { meta l4proto . th sport : %s }", from, public, port, d.direction, d.host)
		line("%s %s %s ct direction %s update @met { meta l4proto . th sport . ip daddr : %s }", from, public, port, d.direction, d.host)
	}
	line("}")

	line("chain input { type filter hook input priority filter; policy drop;")
	line("iifname lo accept")
	line("icmp type echo-request accept")
	if n.RejectSYN {
		line("iifname %s tcp flags & (fin|syn|rst|ack) == syn reject with tcp reset", wan)
	}
	line("}")

	line("chain forward { type filter hook forward priority filter; policy drop;")
	line("ct state established,related accept")
	line("iifname %s* oifname %s accept", lan, wan)
	line("ct status dnat accept")
	if router.IsValid() {
		line("iifname %s ip saddr %s accept", wan, router)
	}
	if n.LAN {
		line("iifname %s* oifname %s* accept", lan, lan)
	}
	line("}\n}")
	return b.String()
}

// newSeed is a seed that is not 0.
func newSeed() uint32 { return rand.Uint32() | 1 } //nolint:gosec // port numbers of a lab, no secret
