package datagram

import "encoding/binary"

// The parts of yamux's frames that we look at: version, type, flags (2 bytes),
// stream (4), length (4).
const (
	yamuxHeader = 12

	yamuxVersion = 0

	yamuxData   = 0
	yamuxWindow = 1
	yamuxPing   = 2

	yamuxSYN = 1
	yamuxACK = 2
	yamuxRST = 8
)

// yamux ignores the length of a reset. The length distinguishes a reset from the answer
// to one.
const (
	resetAsks    = 0
	resetAnswers = 1
)

// header is that of one frame.
type header [yamuxHeader]byte

func makeHeader(kind byte, flags uint16, stream, length uint32) header {
	var h header
	h[1] = kind
	binary.BigEndian.PutUint16(h[2:], flags)
	binary.BigEndian.PutUint32(h[4:], stream)
	binary.BigEndian.PutUint32(h[8:], length)
	return h
}

func (h *header) flags() uint16  { return binary.BigEndian.Uint16(h[2:]) }
func (h *header) stream() uint32 { return binary.BigEndian.Uint32(h[4:]) }
func (h *header) length() uint32 { return binary.BigEndian.Uint32(h[8:]) }
func (h *header) ping() bool     { return h[0] == yamuxVersion && h[1] == yamuxPing }

// scanner finds resets and pings in the passing bytes, and removes the pings.
type scanner struct {
	head header
	have int    // bytes of head, which have not been passed on
	skip uint32 // bytes of a body
}

// scan reads b, which begins with the bytes held back by the last call, and returns the
// bytes to pass on, in b's memory. It holds back the beginning of a header.
func (s *scanner) scan(b []byte, found func(h *header)) []byte {
	s.have = 0
	passed := 0 // bytes at b's beginning; the bytes after a removed ping move there
	pass := func(at, n int) {
		if passed != at {
			copy(b[passed:], b[at:at+n])
		}
		passed += n
	}
	for at := 0; at < len(b); {
		left := len(b) - at
		if s.skip > 0 {
			n := int(min(int64(s.skip), int64(left)))
			s.skip -= uint32(n)
			pass(at, n)
			at += n
			continue
		}
		s.have = copy(s.head[:], b[at:])
		if s.have < yamuxHeader {
			break
		}
		s.have = 0
		if s.head[1] == yamuxData {
			s.skip = s.head.length()
		}
		if !s.head.ping() {
			pass(at, yamuxHeader)
		}
		at += yamuxHeader
		found(&s.head)
	}
	return b[:passed]
}
