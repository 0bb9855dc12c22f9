package carrier

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// shortChunk and longChunk bound one yamux frame: see [join.chunk].
const shortChunk, longChunk = 64 << 10, 128 << 10

// stream is a yamux stream with resets and honest ends.
type stream struct {
	raw *yamux.Stream
	s   *session
	// reset: either side has reset the stream.
	reset atomic.Bool
	// readDone and writeDone: the direction ended cleanly.
	readDone, writeDone atomic.Bool
}

var _ Stream = (*stream)(nil)

func (st *stream) Read(b []byte) (int, error) {
	n, err := st.raw.Read(b)
	if err == nil {
		if st.reset.Load() {
			return 0, ErrReset
		}
		return n, nil
	}
	if errors.Is(err, io.EOF) && !st.reset.Load() && !st.s.mux.IsClosed() {
		st.readDone.Store(true)
		st.forgetIfDone()
		return n, io.EOF
	}
	return n, st.reason(err)
}

func (st *stream) Write(b []byte) (int, error) {
	total := 0
	for total < len(b) {
		n, err := st.raw.Write(b[total:min(len(b), total+st.s.join.chunk())])
		total += n
		if err != nil {
			if errors.Is(err, yamux.ErrConnectionWriteTimeout) {
				// Whether the frame went out is unknown: the stream is lost, and
				// the connection beneath it moves nothing.
				st.s.Close(ErrStalled)
			}
			return total, st.reason(err)
		}
	}
	return total, nil
}

// reason translates yamux's errors, which call everything closed.
func (st *stream) reason(err error) error {
	switch {
	case st.reset.Load(), errors.Is(err, yamux.ErrConnectionReset):
		return ErrReset
	case st.s.mux.IsClosed():
		return st.s.closedError()
	}
	return err
}

func (st *stream) CloseWrite() error {
	if st.reset.Load() {
		return ErrReset
	}
	begin := time.Now()
	if err := st.raw.Close(); err != nil {
		return fmt.Errorf("half-close stream: %w", err)
	}
	// yamux hides that it could not send the FIN; the far side would wait for the FIN
	// without end.
	if time.Since(begin) >= writeTimeout {
		st.s.Close(ErrStalled)
	}
	st.writeDone.Store(true)
	st.forgetIfDone()
	return nil
}

func (st *stream) Reset() {
	if st.readDone.Load() && st.writeDone.Load() {
		return
	}
	if st.reset.CompareAndSwap(false, true) {
		st.release()
		st.s.signalReset(st.raw.StreamID())
	}
}

// release ends every local call that is blocked on the stream.
func (st *stream) release() { _ = st.raw.SetDeadline(time.Unix(1, 0)) }

func (st *stream) forgetIfDone() {
	if st.readDone.Load() && st.writeDone.Load() {
		st.s.forget(st.raw.StreamID())
	}
}

func (st *stream) SetDeadline(t time.Time) error {
	return errors.Join(st.SetReadDeadline(t), st.SetWriteDeadline(t))
}

func (st *stream) SetReadDeadline(t time.Time) error {
	err := st.raw.SetReadDeadline(t)
	st.keepReleased()
	return err
}

func (st *stream) SetWriteDeadline(t time.Time) error {
	err := st.raw.SetWriteDeadline(t)
	st.keepReleased()
	return err
}

// keepReleased undoes a deadline that raced with a reset.
func (st *stream) keepReleased() {
	if st.reset.Load() {
		st.release()
	}
}

func (st *stream) LocalAddr() net.Addr  { return st.raw.LocalAddr() }
func (st *stream) RemoteAddr() net.Addr { return st.raw.RemoteAddr() }
