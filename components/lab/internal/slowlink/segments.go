package slowlink

import (
	"encoding/binary"
)

// A frame is a virtio-net header and an IP packet.
const (
	vnetLen = 10

	flagNeedsCsum = 1
	gsoNone       = 0
	gsoTCP4       = 1
	gsoUDP        = 5
	gsoECN        = 0x80

	protoTCP = 6
	protoUDP = 17

	maxFrame = vnetLen + 65535
	// maxSegments is more than the kernel puts in one packet with any sane size.
	maxSegments = 2048
)

// shape says how a frame falls into segments.
type shape struct {
	head int // bytes of IP and transport header
	size int // payload bytes of each segment but the last
	body int // payload bytes in all
	udp  bool
}

// shapeOf reads a frame's header. ok is false for a frame that is one packet as it is.
func shapeOf(frame []byte) (s shape, ok bool) {
	if len(frame) < vnetLen+20 {
		return s, false
	}
	kind := frame[1] &^ gsoECN
	if kind != gsoTCP4 && kind != gsoUDP || frame[0]&flagNeedsCsum == 0 {
		return s, false
	}
	ip := frame[vnetLen:]
	ihl := int(ip[0]&0xf) * 4
	s.size = int(binary.NativeEndian.Uint16(frame[4:]))
	switch {
	case ip[0]>>4 != 4 || ihl < 20 || s.size == 0:
		return s, false
	case kind == gsoTCP4 && ip[9] == protoTCP && len(ip) >= ihl+20:
		s.head = ihl + max(20, int(ip[ihl+12]>>4)*4)
	case kind == gsoUDP && ip[9] == protoUDP && len(ip) >= ihl+8:
		s.head, s.udp = ihl+8, true
	default:
		return s, false
	}
	s.body = len(ip) - s.head
	return s, s.body > s.size && s.count() <= maxSegments
}

// count is the number of segments.
func (s shape) count() int { return (s.body + s.size - 1) / s.size }

// bytes is the size of segment i as an IP packet.
func (s shape) bytes(i int) int {
	return s.head + min(s.size, s.body-i*s.size)
}

// cut writes segments from to to (not included) of frame as a frame into out and
// returns it.
func (s shape) cut(out, frame []byte, from, to int) []byte {
	if from == 0 && to == s.count() {
		return append(out[:0], frame...)
	}
	start, end := from*s.size, min(to*s.size, s.body)
	ip := frame[vnetLen:]
	out = append(out[:0], frame[:vnetLen+s.head]...)
	out = append(out, ip[s.head+start:s.head+end]...)
	if to-from == 1 {
		out[1] = gsoNone
		binary.NativeEndian.PutUint16(out[4:], 0)
	}
	o := out[vnetLen:]
	ihl := int(o[0]&0xf) * 4
	binary.BigEndian.PutUint16(o[2:], uint16(len(o)))
	id := binary.BigEndian.Uint16(o[4:])
	binary.BigEndian.PutUint16(o[4:], id+uint16(from))
	o[10], o[11] = 0, 0
	binary.BigEndian.PutUint16(o[10:], ^fold(sum(o[:ihl])))
	t := o[ihl:]
	check := t[6:8]
	if s.udp {
		binary.BigEndian.PutUint16(t[4:], uint16(len(t)))
	} else {
		check = t[16:18]
		seq := binary.BigEndian.Uint32(t[4:])
		binary.BigEndian.PutUint32(t[4:], seq+uint32(start))
		const fin, psh, cwr = 1, 8, 128
		if end < s.body {
			t[13] &^= fin | psh
		}
		if from > 0 {
			t[13] &^= cwr
		}
	}
	// A checksum still to be made holds the sum of the pseudo header, the length in it.
	pseudo := sum(o[12:20]) + uint32(o[9]) + uint32(len(t))
	binary.BigEndian.PutUint16(check, fold(pseudo))
	return out
}

func sum(b []byte) uint32 {
	var s uint32
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	return s
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
