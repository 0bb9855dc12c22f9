package ice

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Kind is the transport of a path. The zero value is no path.
type Kind string

const (
	// Direct goes from our socket to an address of the Peer.
	Direct Kind = "direct"
	// Relay goes through a TURN server, ours or the Peer's.
	Relay Kind = "relay"
)

// Found is a pair of addresses that answered an authenticated check.
type Found struct {
	Kind Kind
	// Local is our end: for Direct the socket's own address, for a relay of ours
	// the address it gave us.
	Local netip.AddrPort
	// Remote is where the Peer is reached.
	Remote netip.AddrPort
	// Mapped is our end as the Peer sees it; zero if it did not say.
	Mapped netip.AddrPort
	// LocalType and RemoteType are ICE's: host, srflx, prflx, relay. LocalType is
	// srflx when a NAT gave us an address that we had offered, prflx when it gave
	// us another.
	LocalType, RemoteType string
	// Relay carries the data of a path through a relay of ours: a Write is one datagram,
	// a Read gives one. It is nil for Direct. It is also nil for Kind Relay when only the
	// Peer uses a relay: then the socket exchanges datagrams with Remote, and the
	// underlay sees a direct path. All Founds of a search share one Relay. The first
	// receiver of the Relay may close it; the Relay ends with the Search at the latest.
	Relay net.Conn
	// RTT is the least round trip of a check; 0 when it was not measured, as
	// with a relay of ours.
	RTT time.Duration
	// Alternates are the other pairs that answered, best first, without
	// alternates of their own.
	Alternates []Found
}

// before reports whether a is the better path: a direct one, then a clearly faster one
// (by a fifth and 2 ms), then the path with fewer translations, then any fixed order.
func (a Found) before(b Found) bool {
	if (a.Kind == Direct) != (b.Kind == Direct) {
		return a.Kind == Direct
	}
	if (a.RTT == 0) != (b.RTT == 0) {
		return b.RTT == 0
	}
	if clearly(a.RTT, b.RTT) != clearly(b.RTT, a.RTT) {
		return clearly(a.RTT, b.RTT)
	}
	if x, y := translations(a), translations(b); x != y {
		return x < y
	}
	return a.Remote.Compare(b.Remote) < 0
}

func clearly(a, b time.Duration) bool { return b-a > b/5 && b-a > 2*time.Millisecond }

func translations(f Found) int {
	n := 0
	for _, kind := range []string{f.LocalType, f.RemoteType} {
		switch kind {
		case typeHost:
		case typeSrflx, typePrflx:
			n++
		default:
			n += 2
		}
	}
	return n
}

// choose makes one Found of many: the best, with the others as alternates. Being clearly
// faster is not transitive, so a single winner need not exist: choose takes the first
// Found, in a fixed order, that no other beats.
func choose(list []Found) (Found, bool) {
	if len(list) == 0 {
		return Found{}, false
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Found) int {
		if a.RTT != b.RTT && a.RTT != 0 && b.RTT != 0 {
			return cmp.Compare(a.RTT, b.RTT)
		}
		return a.Remote.Compare(b.Remote)
	})
	best := 0
	for i := 1; i < len(list); i++ {
		if list[i].before(list[best]) {
			best = i
		}
	}
	f := list[best]
	f.Alternates = slices.Delete(list, best, best+1)
	slices.SortStableFunc(f.Alternates, func(a, b Found) int {
		if a.Kind != b.Kind {
			if a.Kind == Direct {
				return -1
			}
			return 1
		}
		return 0
	})
	return f, true
}

// same reports whether two Founds name the same pairs in the same places, regardless of
// their round trips.
func (a Found) same(b Found) bool {
	pair := func(x, y Found) bool {
		return x.Kind == y.Kind && x.Remote == y.Remote && x.Relay == y.Relay && x.RemoteType == y.RemoteType
	}
	return pair(a, b) && slices.EqualFunc(a.Alternates, b.Alternates, pair)
}
