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

// yamuxConn is what yamux wants of a connection.
type yamuxConn = io.ReadWriteCloser

// The parts of yamux's frames that we look at: version, type, flags (2 bytes),
// stream (4), length (4).
const (
	yamuxHeader = 12

	yamuxData   = 0
	yamuxWindow = 1
	yamuxRST    = 8
)

// How the length of a reset, which yamux ignores, tells a reset from the
// answer to one.
const (
	resetAsks    = 0
	resetAnswers = 1
)

// maxAnswers bounds the answers to resets that wait for the connection.
const maxAnswers = 1024

// errMux is what yamux ends with when the first stream is in order.
var errMux = fmt.Errorf("%w: multiplexer gave up", frame.ErrInvalid)

// errTooManyResets ends a Session whose far side resets without taking answers.
var errTooManyResets = errors.New("too many control streams reset")

// frames sits between yamux and the first stream. yamux understands a reset,
// but has no public way to send one, and to forget a stream it must be told of
// the reset itself: so frames writes resets among yamux's frames, and answers
// each that comes with another.
//
// It also joins a data frame's header and body, which yamux writes in two
// calls, into one.
type frames struct {
	conn   io.ReadWriter
	heard  func()
	answer func(id uint32) // must not wait
	end    func(error)     // the multiplexer is over, and why
	fault  atomic.Pointer[error]

	turns turns // of yamux's one sending goroutine, but for its chunk

	mu  sync.Mutex // held for the writing of whole frames
	out []byte     // of yamux's one sending goroutine
	// held tells that out is a header whose body comes next.
	held bool

	in scanner // of yamux's one receiving goroutine
}

func (f *frames) Read(b []byte) (int, error) {
	n, err := f.conn.Read(b)
	if n > 0 {
		f.heard()
		f.in.scan(b[:n], f.answer)
	}
	f.note(err)
	return n, err
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

// note remembers what went wrong first.
func (f *frames) note(err error) {
	if err != nil {
		f.fault.CompareAndSwap(nil, &err)
	}
}

// reset sends the reset of a stream. It may wait for the connection.
func (f *frames) reset(id, length uint32) {
	b := make([]byte, yamuxHeader)
	b[1] = yamuxWindow
	binary.BigEndian.PutUint16(b[2:], yamuxRST)
	binary.BigEndian.PutUint32(b[4:], id)
	binary.BigEndian.PutUint32(b[8:], length)
	_, _ = f.writeFrame(b) // an error is the end of the Session, told elsewhere
}

// Close is called by yamux, when it is closed or gives up.
func (f *frames) Close() error {
	err := errMux
	if fault := f.fault.Load(); fault != nil {
		err = *fault
	}
	f.end(err)
	return nil
}

// scanner finds resets in what passes by.
type scanner struct {
	head [yamuxHeader]byte
	have int    // bytes of head
	skip uint32 // bytes of a body
}

func (s *scanner) scan(b []byte, reset func(id uint32)) {
	for len(b) > 0 {
		if s.skip > 0 {
			n := min(int64(s.skip), int64(len(b)))
			s.skip -= uint32(n)
			b = b[n:]
			continue
		}
		n := copy(s.head[s.have:], b)
		s.have += n
		b = b[n:]
		if s.have < yamuxHeader {
			return
		}
		s.have = 0
		length := binary.BigEndian.Uint32(s.head[8:])
		switch s.head[1] {
		case yamuxData:
			s.skip = length
		case yamuxWindow:
			if binary.BigEndian.Uint16(s.head[2:])&yamuxRST != 0 && length == resetAsks {
				reset(binary.BigEndian.Uint32(s.head[4:]))
			}
		}
	}
}

// answerReset lets the far side forget a control stream that it reset.
func (s *session) answerReset(id uint32) {
	if s.answers.Add(1) > maxAnswers {
		s.spawn(func() { s.Close(errTooManyResets) })
		return
	}
	s.spawn(func() {
		defer s.answers.Add(-1)
		s.frames.reset(id, resetAnswers)
	})
}
