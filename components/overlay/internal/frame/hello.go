package frame

import (
	"fmt"
	"io"
)

// MinDatagram is the smallest encoded datagram: the two ports and no payload.
const MinDatagram = datagramHead

// helloMagic begins the first stream of a datagram carrier's connection.
const helloMagic = "CDQ"

// HelloSize is the encoded length of a hello.
const HelloSize = len(helloMagic) + 1

// AppendHello appends the dialer's first bytes to b. The hello exists because the
// acceptor of a datagram carrier sees a stream only after its first bytes have arrived.
func AppendHello(b []byte) []byte { return append(append(b, helloMagic...), version) }

// ReadHello reads one hello from r.
func ReadHello(r io.Reader) error {
	var b [HelloSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return fmt.Errorf("read hello: %w", err)
	}
	if string(b[:len(helloMagic)]) != helloMagic {
		return fmt.Errorf("%w: hello begins with %x", ErrInvalid, b[:len(helloMagic)])
	}
	if v := b[len(helloMagic)]; v != version {
		return fmt.Errorf("%w: hello of version %d, want %d", ErrInvalid, v, version)
	}
	return nil
}
