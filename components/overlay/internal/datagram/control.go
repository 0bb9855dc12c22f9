package datagram

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/frame"
)

// yamuxConn is the connection type that yamux requires.
type yamuxConn = io.ReadWriteCloser

// maxAnswers bounds the answers that wait for the connection.
const maxAnswers = 1024

// errMux is the error for an end of yamux while the first stream is in order.
var errMux = fmt.Errorf("%w: multiplexer gave up", frame.ErrInvalid)

// errTooManyAnswers ends a Session when the far side sends resets or pings without
// reading the answers.
var errTooManyAnswers = errors.New("too many resets and pings with unread answers")

// frames sits between yamux and the first stream. yamux understands a reset, but has no
// public way to send one. To forget a stream, yamux must receive the reset itself. So
// frames writes resets among yamux's frames, and answers each reset with another.
//
// Pings are not yamux's either: they are sent and answered here, whether there is
// a multiplexer or not.
//
// It also joins a data frame's header and body, which yamux writes in two calls, into
// one.
type frames struct {
	conn  io.ReadWriter
	heard func()
	// answer sends an answer to the far side; it must not wait.
	answer func(header)
	pong   func(id uint32)
	end    func(error) // the multiplexer is over, and why
	fault  atomic.Pointer[error]

	turns turns // of yamux's one sending goroutine, except its chunk

	mu  sync.Mutex // held for the writing of whole frames
	out []byte     // of yamux's one sending goroutine
	// held: out is a header and its body comes next.
	held bool

	in scanner // only the reading goroutine uses it
}

// idle reads one frame, or a part of it, while there is no multiplexer. idle reports
// whether a multiplexer has to be made: then the frame is left for it.
func (f *frames) idle() (multiplexed bool, err error) {
	n, err := f.conn.Read(f.in.head[f.in.have:])
	if n > 0 {
		f.heard()
	}
	f.in.have += n
	if f.in.have < yamuxHeader {
		return false, err
	}
	if !f.in.head.ping() {
		return true, nil
	}
	f.in.have = 0
	f.found(&f.in.head)
	return false, err
}

// Read is for yamux, which reads pages at a time.
func (f *frames) Read(b []byte) (int, error) {
	if len(b) < 2*yamuxHeader {
		return 0, io.ErrShortBuffer
	}
	for {
		have := copy(b, f.in.head[:f.in.have])
		if have < yamuxHeader {
			n, err := f.conn.Read(b[have:])
			if n > 0 {
				f.heard()
			}
			f.note(err)
			if err != nil && n == 0 {
				return 0, err
			}
			have += n
		}
		if passed := f.in.scan(b[:have], f.found); len(passed) > 0 {
			return len(passed), nil // an error comes again
		}
	}
}

// found executes the request of a frame.
func (f *frames) found(h *header) {
	switch {
	case h.ping() && h.flags()&yamuxSYN != 0:
		f.answer(makeHeader(yamuxPing, yamuxACK, 0, h.length()))
	case h.ping():
		f.pong(h.length())
	case h[1] == yamuxWindow && h.flags()&yamuxRST != 0 && h.length() == resetAsks:
		f.answer(makeHeader(yamuxWindow, yamuxRST, h.stream(), resetAnswers))
	}
}

func (f *frames) Write(b []byte) (int, error) {
	if f.held {
		f.held = false
		f.out = append(f.out[:yamuxHeader], b...)
		begin := time.Now()
		n, err := f.writeFrame(f.out)
		f.turns.took(n, time.Since(begin))
		return max(0, n-yamuxHeader), err
	}
	if len(b) == yamuxHeader && b[1] == yamuxData && binary.BigEndian.Uint32(b[8:]) > 0 {
		f.out = append(f.out[:0], b...)
		f.held = true
		return len(b), nil
	}
	return f.writeFrame(b)
}

func (f *frames) writeFrame(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.conn.Write(b)
	f.note(err)
	return n, err
}

// chunk bounds the next frame.
func (f *frames) chunk() int { return f.turns.chunk() }

// note keeps the first error.
func (f *frames) note(err error) {
	if err != nil {
		f.fault.CompareAndSwap(nil, &err)
	}
}

// send sends a frame of ours. It may wait for the connection. The Session reports an
// error itself and ends.
func (f *frames) send(h header) { _, _ = f.writeFrame(h[:]) }

// Close is called by yamux, when it is closed or gives up.
func (f *frames) Close() error {
	err := errMux
	if fault := f.fault.Load(); fault != nil {
		err = *fault
	}
	f.end(err)
	return nil
}

// answer sends the awaited answer to the far side: that its ping arrived, or that it may
// forget a control stream that it reset.
func (s *session) answer(h header) {
	if s.answers.Add(1) > maxAnswers {
		s.spawn(func() { s.Close(errTooManyAnswers) })
		return
	}
	s.spawn(func() {
		defer s.answers.Add(-1)
		s.frames.send(h)
	})
}
