package peer

import (
	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/peermap"
)

// Stats counts the traffic with one Peer since it joined the map.
type Stats struct {
	Peer  identity.ID
	Ports []PortStats
	// Open is the number of forwarded connections now.
	Open int
	// RefusedTCP and RefusedUDP count the Peer's refused attempts.
	RefusedTCP, RefusedUDP uint64
	// DroppedDatagrams counts datagrams without a Session, room or route.
	DroppedDatagrams uint64
	// BytesIn and BytesOut are the bytes of all Sessions, as their carriers count them.
	BytesIn, BytesOut uint64
	// PacketsSent and PacketsLost count the packets of datagram carriers.
	PacketsSent, PacketsLost uint64
}

// PortStats counts the traffic over one port of one Peer.
type PortStats struct {
	Port peermap.PortRef
	// Outbound: the port is the Peer's. Otherwise it is this node's.
	Outbound bool
	// BytesIn came from the Peer, BytesOut went to it.
	BytesIn, BytesOut uint64
	// Streams is the number of connections there have been, Datagrams the
	// number of datagrams either way.
	Streams, Datagrams uint64
}

// Stats may be called at any time.
func (p *Peer) Stats() Stats {
	f := p.forward.Stats()
	st := Stats{
		Peer: p.id, Open: f.Open,
		RefusedTCP: f.RefusedTCP, RefusedUDP: f.RefusedUDP, DroppedDatagrams: f.DroppedDatagrams,
	}
	v := p.View()
	moved := v.Ended
	for _, s := range v.Sessions {
		moved = sumStats(moved, s.Stats())
	}
	st.DroppedDatagrams += moved.DatagramsDropped
	st.BytesIn, st.BytesOut = moved.BytesIn, moved.BytesOut
	st.PacketsSent, st.PacketsLost = moved.PacketsSent, moved.PacketsLost
	for _, port := range f.Ports {
		protocol := peermap.TCP
		if port.Port.Protocol == forward.UDP {
			protocol = peermap.UDP
		}
		st.Ports = append(st.Ports, PortStats{
			Port: peermap.PortRef{Protocol: protocol, Port: port.Port.Port}, Outbound: port.Outbound,
			BytesIn: port.BytesIn, BytesOut: port.BytesOut, Streams: port.Streams, Datagrams: port.Datagrams,
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
