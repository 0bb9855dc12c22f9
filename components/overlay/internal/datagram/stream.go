package datagram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/carrier"
	quic "github.com/apernet/quic-go"
)

// stream is a QUIC stream that resets both directions together.
type stream struct {
	raw *quic.Stream
	s   *session
	// reset: this side has reset the stream.
	reset atomic.Bool
	// readDone and writeDone: the direction ended cleanly.
	readDone, writeDone atomic.Bool
}

var _ carrier.Stream = (*stream)(nil)

func (st *stream) Read(b []byte) (int, error) {
	n, err := st.raw.Read(b)
	if n > 0 {
		st.s.hear()
	}
	switch {
	case st.dropped():
		return 0, carrier.ErrReset
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		st.readDone.Store(true)
		return n, io.EOF
	}
	return n, st.reason(err)
}

func (st *stream) Write(b []byte) (int, error) {
	n, err := st.raw.Write(b)
	if err != nil {
		return n, st.reason(err)
	}
	return n, nil
}

// CloseWrite does not wait: QUIC repeats the end until it has arrived.
func (st *stream) CloseWrite() error {
	if st.dropped() {
		return carrier.ErrReset
	}
	if err := st.raw.Close(); err != nil {
		return carrier.ErrReset // by the far side, just now
	}
	if cause := st.s.raw.Context(); cause.Err() != nil {
		return fmt.Errorf("half-close stream: %w", st.s.closedError(context.Cause(cause)))
	}
	st.writeDone.Store(true)
	return nil
}

// Reset asks the far side to stop sending and announces the end of our data. Each
// overtakes data, and each is repeated until it has arrived.
func (st *stream) Reset() {
	if st.readDone.Load() && st.writeDone.Load() {
		return // giving up the sending side would take back an end on its way
	}
	st.reset.Store(true)
	st.raw.CancelRead(codeReset)
	st.raw.CancelWrite(codeReset)
}

// dropped reports whether either side has reset the stream. The far side's reset comes as
// two messages: its half may be at its clean end for us when the other half is already
// reset.
func (st *stream) dropped() bool {
	if st.reset.Load() {
		return true
	}
	if st.raw.Context().Err() == nil {
		return false
	}
	var reset *quic.StreamError
	return errors.As(context.Cause(st.raw.Context()), &reset)
}

// reason translates QUIC's errors.
func (st *stream) reason(err error) error {
	var reset *quic.StreamError
	switch {
	case st.reset.Load(), errors.As(err, &reset):
		return carrier.ErrReset
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.Is(err, net.ErrClosed): // which every end of a connection is
		return st.s.closedError(err)
	}
	return err
}

func (st *stream) SetDeadline(t time.Time) error      { return st.raw.SetDeadline(t) }
func (st *stream) SetReadDeadline(t time.Time) error  { return st.raw.SetReadDeadline(t) }
func (st *stream) SetWriteDeadline(t time.Time) error { return st.raw.SetWriteDeadline(t) }
func (st *stream) LocalAddr() net.Addr                { return st.s.raw.LocalAddr() }
func (st *stream) RemoteAddr() net.Addr               { return st.s.raw.RemoteAddr() }
