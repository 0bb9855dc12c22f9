package frame

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Bounds of a [Chain].
const (
	MaxChain       = 3
	MaxCertificate = 4 << 10
)

// Chain is certificates in DER, leaf first. It follows the header of a certificate
// stream.
type Chain [][]byte

// Append encodes c behind b.
func (c Chain) Append(b []byte) []byte {
	b = append(b, byte(len(c)))
	for _, der := range c {
		b = binary.BigEndian.AppendUint16(b, uint16(len(der)))
		b = append(b, der...)
	}
	return b
}

// ReadChain reads one chain from r.
func ReadChain(r io.Reader) (Chain, error) {
	var first [1]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return nil, fmt.Errorf("read chain: %w", err)
	}
	count := first[0]
	if count == 0 || count > MaxChain {
		return nil, fmt.Errorf("%w: chain of %d certificates, want 1 to %d", ErrInvalid, count, MaxChain)
	}
	out := make(Chain, count)
	for i := range out {
		var length [2]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return nil, fmt.Errorf("read chain: %w", err)
		}
		size := binary.BigEndian.Uint16(length[:])
		if size == 0 || size > MaxCertificate {
			return nil, fmt.Errorf("%w: certificate of %d bytes, want 1 to %d", ErrInvalid, size, MaxCertificate)
		}
		out[i] = make([]byte, size)
		if _, err := io.ReadFull(r, out[i]); err != nil {
			return nil, fmt.Errorf("read chain: %w", err)
		}
	}
	return out, nil
}
