package forward

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// PortStats counts the traffic over one port of one Peer.
type PortStats struct {
	Port Port
	// Outbound: the port is the Peer's and the app is ours.
	Outbound bool
	// BytesIn came from the Peer, BytesOut went to it.
	BytesIn, BytesOut uint64
	// Streams is how many connections there were, Datagrams how many datagrams
	// went either way.
	Streams, Datagrams uint64
}

// Stats counts the traffic with one Peer.
type Stats struct {
	Ports []PortStats
	// Open is the number of connections now.
	Open int
	// RefusedTCP and RefusedUDP count the Peer's refused attempts.
	RefusedTCP, RefusedUDP uint64
	// DroppedDatagrams counts datagrams without a Session, a socket or a flow.
	DroppedDatagrams uint64
}

type counterKey struct {
	port Port
	dir  direction
}

// count belongs to one counterKey.
type count struct{ in, out, streams, datagrams atomic.Uint64 }

// counter finds or makes the counters of a port.
func (p *Peer) counter(port Port, dir direction) *count {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counterLocked(port, dir)
}

func (p *Peer) counterLocked(port Port, dir direction) *count {
	key := counterKey{port, dir}
	c := p.counters[key]
	if c == nil {
		c = new(count)
		p.counters[key] = c
	}
	return c
}

// Stats may be called at any time.
func (p *Peer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := Stats{
		Open:       len(p.pipes),
		RefusedTCP: p.refused[TCP], RefusedUDP: p.refused[UDP],
		DroppedDatagrams: p.udp.dropped.Load(),
	}
	for key, c := range p.counters {
		st.Ports = append(st.Ports, PortStats{
			Port: key.port, Outbound: key.dir == outbound,
			BytesIn: c.in.Load(), BytesOut: c.out.Load(),
			Streams: c.streams.Load(), Datagrams: c.datagrams.Load(),
		})
	}
	slices.SortFunc(st.Ports, func(a, b PortStats) int {
		return cmp.Or(
			cmp.Compare(a.Port.Protocol, b.Port.Protocol),
			cmp.Compare(a.Port.Port, b.Port.Port),
			boolCompare(a.Outbound, b.Outbound),
		)
	})
	return st
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
