package frame

import (
	"encoding/binary"
	"fmt"
	"io"
)

// SignalKind is the event of a [Signal].
type SignalKind byte

const (
	// SignalReset: the sender dropped the stream; discard it and say so.
	SignalReset SignalKind = 1
	// SignalResetDone: the sender has let go of a stream that the receiver reset.
	SignalResetDone SignalKind = 2
)

// SignalSize is the encoded length of a [Signal].
const SignalSize = 5

// Signal travels outside of its stream, so that it overtakes data which flow control
// holds back.
type Signal struct {
	Kind   SignalKind
	Stream uint32
}

// Append encodes s behind b.
func (s Signal) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(append(b, byte(s.Kind)), s.Stream)
}

// ReadSignal reads one signal from r.
func ReadSignal(r io.Reader) (Signal, error) {
	var b [SignalSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Signal{}, fmt.Errorf("read signal: %w", err)
	}
	s := Signal{Kind: SignalKind(b[0]), Stream: binary.BigEndian.Uint32(b[1:])}
	if s.Kind != SignalReset && s.Kind != SignalResetDone {
		return Signal{}, fmt.Errorf("%w: signal kind %d", ErrInvalid, b[0])
	}
	return s, nil
}
