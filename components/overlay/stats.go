package overlay

import (
	"slices"
	"strings"
	"sync/atomic"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
)

// Stats counts what a node did since it was made.
type Stats struct {
	// FailedHandshakes ended before the far side showed a usable certificate.
	FailedHandshakes uint64
	// NotAdmitted showed a genuine certificate that the peer map does not name.
	NotAdmitted uint64
	// Overloaded found no free place for a handshake or a first contact.
	Overloaded uint64
	// Admissions is the number of first contacts served.
	Admissions uint64
	// InvalidFrames and Forbidden count streams of no known or allowed kind,
	// LinkLimit those above a Peer's number.
	InvalidFrames, Forbidden, LinkLimit uint64
	// Peers is ordered by name and covers the Peers of the present map.
	Peers []PeerStats
}

// PeerStats counts what went to and from one Peer since it joined the map.
type PeerStats struct {
	Peer  ID
	Ports []PortStats
	// Open is the number of forwarded connections now.
	Open int
	// RefusedTCP and RefusedUDP count what the Peer tried and may not.
	RefusedTCP, RefusedUDP uint64
	// DroppedDatagrams found no Session, no room or no way on.
	DroppedDatagrams uint64
	// BytesIn and BytesOut are what all Sessions moved, as their carriers count.
	BytesIn, BytesOut uint64
	// PacketsSent and PacketsLost are those of datagram carriers.
	PacketsSent, PacketsLost uint64
}

// PortStats counts what went over one port of one Peer.
type PortStats struct {
	Port PortRef
	// Outbound: the port is the Peer's. Otherwise it is this node's.
	Outbound bool
	// BytesIn came from the Peer, BytesOut went to it.
	BytesIn, BytesOut uint64
	// Streams is the number of connections there have been, Datagrams the
	// number of datagrams either way.
	Streams, Datagrams uint64
}

// nodeCounts are the counters of a Node itself.
type nodeCounts struct {
	failedHandshakes, notAdmitted, overloaded, admissions atomic.Uint64
	invalidFrames, forbidden, linkLimit                   atomic.Uint64
}

// Stats may be called at any time.
func (n *Node) Stats() Stats {
	c := &n.counts
	st := Stats{
		FailedHandshakes: c.failedHandshakes.Load(), NotAdmitted: c.notAdmitted.Load(),
		Overloaded: c.overloaded.Load(), Admissions: c.admissions.Load(),
		InvalidFrames: c.invalidFrames.Load(), Forbidden: c.forbidden.Load(), LinkLimit: c.linkLimit.Load(),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		st.Peers = append(st.Peers, l.stats())
	}
	slices.SortFunc(st.Peers, func(a, b PeerStats) int { return strings.Compare(a.Peer.String(), b.Peer.String()) })
	return st
}

func (l *peerLink) stats() PeerStats {
	f := l.forward.Stats()
	st := PeerStats{
		Peer: l.id, Open: f.Open,
		RefusedTCP: f.RefusedTCP, RefusedUDP: f.RefusedUDP, DroppedDatagrams: f.DroppedDatagrams,
	}
	l.mu.Lock()
	moved := l.ended
	for _, s := range l.sessions {
		moved = sumStats(moved, s.Stats())
	}
	l.mu.Unlock()
	st.DroppedDatagrams += moved.DatagramsDropped
	st.BytesIn, st.BytesOut = moved.BytesIn, moved.BytesOut
	st.PacketsSent, st.PacketsLost = moved.PacketsSent, moved.PacketsLost
	for _, p := range f.Ports {
		protocol := TCP
		if p.Port.Protocol == forward.UDP {
			protocol = UDP
		}
		st.Ports = append(st.Ports, PortStats{
			Port: PortRef{Protocol: protocol, Port: p.Port.Port}, Outbound: p.Outbound,
			BytesIn: p.BytesIn, BytesOut: p.BytesOut, Streams: p.Streams, Datagrams: p.Datagrams,
		})
	}
	return st
}

// sumStats adds the counters of two Sessions.
func sumStats(a, b carrier.Stats) carrier.Stats {
	return carrier.Stats{
		BytesIn: a.BytesIn + b.BytesIn, BytesOut: a.BytesOut + b.BytesOut,
		PacketsSent: a.PacketsSent + b.PacketsSent, PacketsLost: a.PacketsLost + b.PacketsLost,
		DatagramsDropped: a.DatagramsDropped + b.DatagramsDropped,
	}
}
