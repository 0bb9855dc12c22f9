package underlay

import (
	"net"
	"sync"
)

// packetSize is the most that a queue carries: more than any path here takes
// without fragments, since QUIC probes up to 1,452 bytes.
const packetSize = 2048

// packet is a datagram on its way through a queue.
type packet struct {
	n    int
	from *net.UDPAddr
	data [packetSize]byte
}

var packets = sync.Pool{New: func() any { return new(packet) }}

// newPacket copies b; nil when b is too long.
func newPacket(b []byte, from *net.UDPAddr) *packet {
	if len(b) > packetSize {
		return nil
	}
	p := packets.Get().(*packet)
	p.n, p.from = copy(p.data[:], b), from
	return p
}

func (p *packet) bytes() []byte { return p.data[:p.n] }

func (p *packet) release() {
	p.from = nil
	packets.Put(p)
}
