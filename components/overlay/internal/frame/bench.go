package frame

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// BenchDirection selects the sender on a bench stream.
type BenchDirection byte

const (
	// BenchSend: the opener sends, the receiver counts and reports.
	BenchSend BenchDirection = 1
	// BenchReceive: the receiver sends, the opener counts.
	BenchReceive BenchDirection = 2
)

const (
	// MaxBenchTime and MaxBenchBytes bound one bench stream, regardless of the request.
	MaxBenchTime  = 10 * time.Second
	MaxBenchBytes = 2 << 30
)

// BenchRequest follows the header of a bench stream. The receiver answers with a
// code; the side that counts ends the stream after Time or at Bytes.
type BenchRequest struct {
	Direction BenchDirection
	Time      time.Duration // whole milliseconds, above 0 and at most MaxBenchTime
	Bytes     uint32        // above 0 and at most MaxBenchBytes
}

// benchSize is the encoded length of a request: direction, milliseconds, bytes.
const benchSize = 1 + 4 + 4

// Append encodes r behind b.
func (r BenchRequest) Append(b []byte) []byte {
	b = append(b, byte(r.Direction))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Time.Milliseconds()))
	return binary.BigEndian.AppendUint32(b, r.Bytes)
}

// ReadBenchRequest reads one request from r.
func ReadBenchRequest(r io.Reader) (BenchRequest, error) {
	var b [benchSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return BenchRequest{}, fmt.Errorf("read bench request: %w", err)
	}
	req := BenchRequest{
		Direction: BenchDirection(b[0]),
		Time:      time.Duration(binary.BigEndian.Uint32(b[1:])) * time.Millisecond,
		Bytes:     binary.BigEndian.Uint32(b[5:]),
	}
	switch {
	case req.Direction != BenchSend && req.Direction != BenchReceive:
		return BenchRequest{}, fmt.Errorf("%w: bench direction %d", ErrInvalid, b[0])
	case req.Time <= 0 || req.Time > MaxBenchTime:
		return BenchRequest{}, fmt.Errorf("%w: bench of %v, want at most %v", ErrInvalid, req.Time, MaxBenchTime)
	case req.Bytes == 0 || req.Bytes > MaxBenchBytes:
		return BenchRequest{}, fmt.Errorf("%w: bench of %d bytes, want 1 to %d", ErrInvalid, req.Bytes, MaxBenchBytes)
	}
	return req, nil
}

// BenchCount is the result of the receiver of a BenchSend stream.
type BenchCount struct {
	Bytes uint32
	Took  time.Duration // from the first byte; whole microseconds
}

// benchCountSize is the encoded length of a count: bytes, microseconds.
const benchCountSize = 4 + 4

// Append encodes c behind b.
func (c BenchCount) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, c.Bytes)
	return binary.BigEndian.AppendUint32(b, uint32(c.Took.Microseconds()))
}

// ReadBenchCount reads one count from r. A count that no correct receiver can have is
// invalid.
func ReadBenchCount(r io.Reader) (BenchCount, error) {
	var b [benchCountSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return BenchCount{}, fmt.Errorf("read bench count: %w", err)
	}
	c := BenchCount{Bytes: binary.BigEndian.Uint32(b[:]), Took: time.Duration(binary.BigEndian.Uint32(b[4:])) * time.Microsecond}
	if c.Bytes > MaxBenchBytes || c.Took > 2*MaxBenchTime {
		return BenchCount{}, fmt.Errorf("%w: bench count of %d bytes in %v", ErrInvalid, c.Bytes, c.Took)
	}
	return c, nil
}
