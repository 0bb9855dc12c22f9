package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrInvalid reports bytes that no correct peer sends (OVL-16, FRAME_INVALID).
var ErrInvalid = errors.New("invalid frame")

// version begins each Greeting, Header and Reply.
const version = 1

// Kind is the content of a stream.
type Kind byte

const (
	// KindSignal carries [Signal] values both ways; the dialer's first stream.
	KindSignal Kind = 1
	// KindUDP carries datagrams both ways; the dialer's second stream.
	KindUDP Kind = 2
	// KindControl1 carries gRPC with the dialer as client.
	KindControl1 Kind = 3
	// KindControl2 carries gRPC with the dialer as server.
	KindControl2 Kind = 4
	// KindTCP carries one forwarded connection to Header.Port.
	KindTCP Kind = 5
	// KindBench measures throughput: a [BenchRequest] and the requested data.
	KindBench Kind = 6
	// KindCertificate brings a newer certificate of the opener's Boot: a [Chain].
	KindCertificate Kind = 7
	// KindRest asks whether all Sessions of the unused Link may end: a list of [SessionTag].
	KindRest Kind = 8
)

// String names the kind for logs.
func (k Kind) String() string {
	switch k {
	case KindSignal:
		return "signal"
	case KindUDP:
		return "udp"
	case KindControl1:
		return "control-1"
	case KindControl2:
		return "control-2"
	case KindTCP:
		return "tcp"
	case KindBench:
		return "bench"
	case KindCertificate:
		return "certificate"
	case KindRest:
		return "rest"
	}
	return fmt.Sprintf("kind-%d", byte(k))
}

// HeaderSize is the encoded length of a [Header].
const HeaderSize = 4

// Header is the first thing on each stream.
type Header struct {
	Kind Kind
	// Port is the destination of a KindTCP stream, zero for every other kind.
	Port uint16
}

// Append encodes h behind b.
func (h Header) Append(b []byte) []byte {
	b = append(b, version, byte(h.Kind))
	return binary.BigEndian.AppendUint16(b, h.Port)
}

// ParseHeader decodes exactly [HeaderSize] bytes.
func ParseHeader(b []byte) (Header, error) {
	if len(b) != HeaderSize {
		return Header{}, fmt.Errorf("%w: header of %d bytes, want %d", ErrInvalid, len(b), HeaderSize)
	}
	if b[0] != version {
		return Header{}, fmt.Errorf("%w: header version %d, want %d", ErrInvalid, b[0], version)
	}
	h := Header{Kind: Kind(b[1]), Port: binary.BigEndian.Uint16(b[2:])}
	switch h.Kind {
	case KindTCP:
		if h.Port == 0 {
			return Header{}, fmt.Errorf("%w: stream to port 0", ErrInvalid)
		}
	case KindSignal, KindUDP, KindControl1, KindControl2, KindBench, KindCertificate, KindRest:
		if h.Port != 0 {
			return Header{}, fmt.Errorf("%w: %s stream with port %d, want 0", ErrInvalid, h.Kind, h.Port)
		}
	default:
		return Header{}, fmt.Errorf("%w: stream kind %d", ErrInvalid, b[1])
	}
	return h, nil
}

// ReadHeader reads one header from r.
func ReadHeader(r io.Reader) (Header, error) {
	var b [HeaderSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Header{}, fmt.Errorf("read stream header: %w", err)
	}
	return ParseHeader(b[:])
}
