package carrier

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

var (
	// ErrReset reports a stream that either side has reset.
	ErrReset = errors.New("stream reset")
	// ErrClosed reports a Session that is over; its text names the reason.
	ErrClosed = errors.New("session closed")
	// ErrDead reports a far side that was silent for too long.
	ErrDead = errors.New("peer silent")
	// ErrStalled reports a connection that takes no bytes.
	ErrStalled = errors.New("connection stalled")
)

// Session is one authenticated connection to a Peer. All methods may be called
// concurrently.
type Session interface {
	// OpenStream opens a stream. It does not wait for the far side.
	OpenStream() (Stream, error)
	// OpenControl is OpenStream for a stream that bulk data must not delay.
	OpenControl() (Stream, error)
	// AcceptStream waits for the far side to open one, until the Session ends.
	AcceptStream() (Stream, error)
	// SendDatagram queues one datagram and never waits. When the queue is full
	// the oldest goes. It copies b.
	SendDatagram(b []byte)
	// ReceiveDatagram waits for one datagram until the Session ends. The result
	// aliases buf where that is large enough for it, and is new where it is not.
	ReceiveDatagram(buf []byte) ([]byte, error)
	// Ping measures one round trip on the control stream, which bulk data delays only by
	// the path's own queue. It ends with ctx or the Session.
	Ping(ctx context.Context) (time.Duration, error)
	// Stats may be called at any time, also after the end.
	Stats() Stats
	// Done is closed when the Session is over, by whichever side or cause.
	Done() <-chan struct{}
	// Err returns the reason for the end once Done is closed; nil before. It wraps
	// ErrClosed.
	Err() error
	// Close ends the Session and resets every stream. The first reason counts.
	Close(reason error)
	// Wait returns when the Session is over and holds no goroutine any more.
	Wait()
}

// Stream is one byte stream of a Session. Reading, writing and resetting may
// happen concurrently, each by one goroutine.
type Stream interface {
	io.Reader
	io.Writer
	// CloseWrite sends the end of our data to the far side: it reads io.EOF.
	CloseWrite() error
	// Reset drops the stream: local calls end with ErrReset at once, and the far side's
	// calls too, regardless of data on its way. A stream that has ended in both
	// directions is left alone. Every stream must be either reset, or half-closed by both
	// sides and read to its end.
	Reset()
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// Stats counts the traffic of a Session.
type Stats struct {
	// BytesIn and BytesOut are counted below TLS.
	BytesIn, BytesOut uint64
	// RTT is the last round trip measured, 0 before the first.
	RTT time.Duration
	// PacketsSent and PacketsLost count the packets of a datagram carrier.
	PacketsSent, PacketsLost uint64
	// DatagramsDropped were queued and then displaced.
	DatagramsDropped uint64
}
