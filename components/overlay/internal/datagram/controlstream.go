package datagram

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"github.com/hashicorp/yamux"
)

// controlStream is a yamux stream with resets and honest ends.
type controlStream struct {
	raw *yamux.Stream
	mux *yamux.Session
	s   *session
	// reset: this side has reset the stream.
	reset atomic.Bool
	// wasReset: this side has seen the far side's reset.
	wasReset atomic.Bool
	// readDone and writeDone: the direction ended cleanly.
	readDone, writeDone atomic.Bool
}

var _ carrier.Stream = (*controlStream)(nil)

func (st *controlStream) Read(b []byte) (int, error) {
	n, err := st.raw.Read(b)
	if err == nil {
		if st.reset.Load() {
			return 0, carrier.ErrReset
		}
		return n, nil
	}
	// yamux calls the death of its session a clean end.
	if errors.Is(err, io.EOF) && !st.reset.Load() && !st.mux.IsClosed() {
		st.readDone.Store(true)
		return n, io.EOF
	}
	return n, st.reason(err)
}

func (st *controlStream) Write(b []byte) (int, error) {
	total := 0
	for total < len(b) {
		if st.reset.Load() {
			return total, carrier.ErrReset // yamux looks at deadlines only when it waits
		}
		n, err := st.raw.Write(b[total:min(len(b), total+st.s.frames.chunk())])
		total += n
		if err != nil {
			st.endIfStalled(err)
			return total, st.reason(err)
		}
	}
	return total, nil
}

// endIfStalled ends a Session that takes no control bytes: whether the frame
// went out is unknown.
func (st *controlStream) endIfStalled(err error) {
	if errors.Is(err, yamux.ErrConnectionWriteTimeout) {
		st.s.Close(carrier.ErrStalled)
	}
}

// reason translates yamux's errors, which call everything closed.
func (st *controlStream) reason(err error) error {
	switch {
	case errors.Is(err, yamux.ErrConnectionReset):
		st.wasReset.Store(true)
		return carrier.ErrReset
	case st.reset.Load():
		return carrier.ErrReset
	case st.mux.IsClosed():
		return st.s.closedError(nil)
	}
	return err
}

func (st *controlStream) CloseWrite() error {
	if st.reset.Load() || st.wasReset.Load() {
		return carrier.ErrReset
	}
	if err := st.raw.Close(); err != nil {
		return fmt.Errorf("half-close control stream: %w", err)
	}
	st.writeDone.Store(true)
	return nil
}

func (st *controlStream) Reset() {
	if st.readDone.Load() && st.writeDone.Load() {
		return
	}
	if st.reset.CompareAndSwap(false, true) {
		st.release()
		st.s.spawn(func() { st.s.frames.send(makeHeader(yamuxWindow, yamuxRST, st.raw.StreamID(), resetAsks)) })
	}
}

// release ends every local call that is blocked on the stream.
func (st *controlStream) release() { _ = st.raw.SetDeadline(time.Unix(1, 0)) }

func (st *controlStream) SetDeadline(t time.Time) error {
	return errors.Join(st.SetReadDeadline(t), st.SetWriteDeadline(t))
}

func (st *controlStream) SetReadDeadline(t time.Time) error {
	err := st.raw.SetReadDeadline(t)
	st.keepReleased()
	return err
}

func (st *controlStream) SetWriteDeadline(t time.Time) error {
	err := st.raw.SetWriteDeadline(t)
	st.keepReleased()
	return err
}

// keepReleased undoes a deadline that raced with a reset.
func (st *controlStream) keepReleased() {
	if st.reset.Load() {
		st.release()
	}
}

func (st *controlStream) LocalAddr() net.Addr  { return st.s.raw.LocalAddr() }
func (st *controlStream) RemoteAddr() net.Addr { return st.s.raw.RemoteAddr() }
