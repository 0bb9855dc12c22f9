package underlay

import "encoding/binary"

// class is the protocol of a datagram, which selects its reader.
type class int

const (
	classOther class = iota
	classQUIC
	classSTUN
	classProbe
)

// stunCookie is in bytes 4 to 8 of every STUN message (RFC 8489).
const (
	stunCookie = 0x2112A442
	stunHeader = 20
)

// classify looks at the first bytes only; each reader checks the rest.
func classify(b []byte) class {
	switch {
	case len(b) == 0:
		return classOther
	case b[0]&0xc0 != 0: // RFC 9000: long header or fixed bit
		return classQUIC
	case b[0] == probeMark:
		return classProbe
	case b[0] < 4 && len(b) >= stunHeader && binary.BigEndian.Uint32(b[4:]) == stunCookie:
		return classSTUN
	}
	return classOther
}
