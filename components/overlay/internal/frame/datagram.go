package frame

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	// MaxPayload is the largest UDP payload that IPv4 can carry.
	MaxPayload = 65507
	// datagramHead is the two ports.
	datagramHead = 4
	// MaxDatagram is the largest encoded datagram, without a length prefix.
	MaxDatagram = datagramHead + MaxPayload
)

// Datagram is one UDP datagram between two Peers.
type Datagram struct {
	// Source is the port it was sent from at the sender's machine.
	Source uint16
	// Destination is the port it goes to at the receiver's machine.
	Destination uint16
	Payload     []byte
}

// Append encodes d behind b.
func (d Datagram) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, d.Source)
	b = binary.BigEndian.AppendUint16(b, d.Destination)
	return append(b, d.Payload...)
}

// ParseDatagram decodes b. The payload aliases b and may be empty.
func ParseDatagram(b []byte) (Datagram, error) {
	if len(b) < datagramHead || len(b) > MaxDatagram {
		return Datagram{}, fmt.Errorf("%w: datagram of %d bytes, want %d to %d", ErrInvalid, len(b), datagramHead, MaxDatagram)
	}
	d := Datagram{
		Source:      binary.BigEndian.Uint16(b),
		Destination: binary.BigEndian.Uint16(b[2:]),
		Payload:     b[datagramHead:],
	}
	if d.Source == 0 || d.Destination == 0 {
		return Datagram{}, fmt.Errorf("%w: datagram from port %d to port %d", ErrInvalid, d.Source, d.Destination)
	}
	return d, nil
}

// AppendPrefixed puts an encoded datagram behind b with its length before it,
// for carriers that have only streams.
func AppendPrefixed(b, datagram []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(datagram)))
	return append(b, datagram...)
}

// PrefixedSize is the number of bytes that [AppendPrefixed] adds for a datagram of n
// bytes.
func PrefixedSize(n int) int { return 2 + n }

// PrefixedLen reads the size, prefix included, of the first datagram in b,
// which [AppendPrefixed] wrote.
func PrefixedLen(b []byte) int { return 2 + int(binary.BigEndian.Uint16(b)) }

// ReadPrefixed reads one datagram into buf, or into a new slice where buf is too
// small for it, and returns the part that it fills.
func ReadPrefixed(r io.Reader, buf []byte) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("read datagram length: %w", err)
	}
	size := int(binary.BigEndian.Uint16(head[:]))
	if size < datagramHead || size > MaxDatagram {
		return nil, fmt.Errorf("%w: datagram of %d bytes, want %d to %d", ErrInvalid, size, datagramHead, MaxDatagram)
	}
	if size > len(buf) {
		buf = make([]byte, size)
	}
	if _, err := io.ReadFull(r, buf[:size]); err != nil {
		return nil, fmt.Errorf("read datagram: %w", err)
	}
	return buf[:size], nil
}
