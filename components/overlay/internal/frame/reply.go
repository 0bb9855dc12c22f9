package frame

import (
	"fmt"
	"io"
)

// Code is the receiver's answer to a stream or a connection. The zero Code is invalid on
// the wire.
type Code byte

const (
	// Accepted: bytes flow.
	Accepted Code = 1
	// PortForbidden: the policy does not let this Peer reach that port.
	PortForbidden Code = 2
	// LinkLimit: this Peer has too many streams open.
	LinkLimit Code = 3
	// DialRefused: the port is allowed, but nothing listens there.
	DialRefused Code = 4
	// DialFailed: the port is allowed, and dialing it went wrong otherwise.
	DialFailed Code = 5
	// PeerNotAdmitted: the certificate names no Boot of the peer map.
	PeerNotAdmitted Code = 6
	// Overloaded: try again later.
	Overloaded Code = 7
	// FrameInvalid: the header was none.
	FrameInvalid Code = 8
	// BenchForbidden: the Peer has no permission to measure.
	BenchForbidden Code = 9
	lastCode            = BenchForbidden
)

// String gives the code's name in the cluster's list of error codes, or a word
// of the same shape where the list has none.
func (c Code) String() string {
	switch c {
	case Accepted:
		return "ACCEPTED"
	case PortForbidden:
		return "PORT_FORBIDDEN"
	case LinkLimit:
		return "LINK_LIMIT"
	case DialRefused:
		return "DIAL_REFUSED"
	case DialFailed:
		return "DIAL_FAILED"
	case PeerNotAdmitted:
		return "PEER_NOT_ADMITTED"
	case Overloaded:
		return "OVERLOADED"
	case FrameInvalid:
		return "FRAME_INVALID"
	case BenchForbidden:
		return "BENCH_FORBIDDEN"
	}
	return fmt.Sprintf("CODE_%d", byte(c))
}

// ReplySize is the encoded length of an answer to a stream.
const ReplySize = 2

// AppendReply encodes the answer to a stream behind b.
func AppendReply(b []byte, c Code) []byte { return append(b, version, byte(c)) }

// ReadReply reads one answer from r.
func ReadReply(r io.Reader) (Code, error) {
	var b [ReplySize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, fmt.Errorf("read reply: %w", err)
	}
	return parseCode(b[0], b[1])
}

// greetingMagic identifies an overlay listener.
const greetingMagic = "CDR"

// GreetingSize is the encoded length of a greeting.
const GreetingSize = len(greetingMagic) + 2

// AppendGreeting appends the acceptor's first bytes to b. The greeting exists because a
// TLS 1.3 client ends its handshake before the server has verified the client's
// certificate.
func AppendGreeting(b []byte, c Code) []byte {
	return append(append(b, greetingMagic...), version, byte(c))
}

// ReadGreeting reads one greeting from r.
func ReadGreeting(r io.Reader) (Code, error) {
	var b [GreetingSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, fmt.Errorf("read greeting: %w", err)
	}
	if string(b[:len(greetingMagic)]) != greetingMagic {
		return 0, fmt.Errorf("%w: greeting begins with %x", ErrInvalid, b[:len(greetingMagic)])
	}
	return parseCode(b[len(greetingMagic)], b[len(greetingMagic)+1])
}

func parseCode(v, c byte) (Code, error) {
	if v != version {
		return 0, fmt.Errorf("%w: version %d, want %d", ErrInvalid, v, version)
	}
	if c == 0 || Code(c) > lastCode {
		return 0, fmt.Errorf("%w: code %d", ErrInvalid, c)
	}
	return Code(c), nil
}
