package service

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

const (
	// lastWords is the time for the far side to read the data that was written before
	// Close.
	lastWords = 5 * time.Second
	// lastBytes bounds the data of the far side that is dropped meanwhile.
	lastBytes = 1 << 20
)

// Ends names both ends of a [Conn].
type Ends struct{ Local, Remote net.Addr }

// Conn is one stream. Make it with [New]; all methods may be called concurrently.
type Conn struct {
	st       carrier.Stream
	ends     Ends
	spawn    func(func()) bool
	over     chan struct{} // closed when the stream is let go of
	onClosed func()        // called then; may be nil

	// One goroutine reads and one writes, as a Stream requires. A waiting Read ends with
	// Close.
	reading chan struct{}
	writing sync.Mutex
	closing chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool // by Close; guarded by mu
	ended  bool // by CloseWrite; guarded by mu
}

var _ net.Conn = (*Conn)(nil)

// New takes charge of st. spawn runs a function in a goroutine that its owner waits for,
// or returns false if it is too late for one. over, which may be nil, is called once,
// after Close and the release of the stream.
func New(st carrier.Stream, ends Ends, spawn func(func()) bool, over func()) *Conn {
	return &Conn{st: st, ends: ends, spawn: spawn, onClosed: over,
		over: make(chan struct{}), reading: make(chan struct{}, 1), closing: make(chan struct{})}
}

// Over is closed when Close was called and the stream is let go of.
func (c *Conn) Over() <-chan struct{} { return c.over }

// Read fails with [net.ErrClosed] after Close and with [os.ErrDeadlineExceeded] after a
// deadline; [io.EOF] is the far side's half-close and nothing else.
func (c *Conn) Read(b []byte) (int, error) {
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-c.closing:
		return 0, net.ErrClosed
	}
	if c.isClosed() {
		return 0, net.ErrClosed
	}
	n, err := c.st.Read(b)
	return n, c.reason(err)
}

// Write fails as Read does, and after CloseWrite.
func (c *Conn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	over := c.closed || c.ended
	c.mu.Unlock()
	if over {
		return 0, net.ErrClosed
	}
	n, err := c.st.Write(b)
	return n, c.reason(err)
}

// CloseWrite sends the end of our data to the far side: it reads [io.EOF].
func (c *Conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.endLocked()
}

// endLocked half-closes, once, with the writing lock held.
func (c *Conn) endLocked() error {
	c.mu.Lock()
	ended := c.ended
	c.ended = true
	c.mu.Unlock()
	if ended {
		return nil
	}
	return c.st.CloseWrite()
}

// Close ends both directions. Written data still arrives, unless Close cuts a Write off:
// then the far side sees a reset, since a partial message is no message. It does not wait.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return net.ErrClosed
	}
	c.closed = true
	close(c.closing)
	c.mu.Unlock()
	_ = c.st.SetReadDeadline(time.Unix(1, 0)) // ends a Read
	if !c.spawn(c.leave) {
		c.st.Reset()
		c.letGo()
	}
	return nil
}

func (c *Conn) letGo() {
	close(c.over)
	if c.onClosed != nil {
		c.onClosed()
	}
}

// leave half-closes, and releases the stream when the far side has closed or has had time
// to read the earlier data: a reset would overtake that data.
func (c *Conn) leave() {
	defer c.letGo()
	defer c.st.Reset() // nothing when the stream has ended both ways
	if !c.writing.TryLock() {
		return
	}
	err := c.endLocked()
	c.writing.Unlock()
	if err != nil {
		return
	}
	c.reading <- struct{}{} // a Read has just been ended
	defer func() { <-c.reading }()
	_ = c.st.SetReadDeadline(time.Now().Add(lastWords))
	_, _ = io.Copy(io.Discard, io.LimitReader(c.st, lastBytes))
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// reason returns the errors that libraries expect.
func (c *Conn) reason(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case c.isClosed():
		return net.ErrClosed
	case errors.As(err, &timeout) && timeout.Timeout():
		return os.ErrDeadlineExceeded
	}
	return err
}

// SetDeadline bounds both directions.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline bounds Read; the zero time is no bound.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	return c.st.SetReadDeadline(t)
}

// SetWriteDeadline bounds Write; the zero time is no bound.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	return c.st.SetWriteDeadline(t)
}

// LocalAddr is this end.
func (c *Conn) LocalAddr() net.Addr { return c.ends.Local }

// RemoteAddr is the far end, as its Session has proved it.
func (c *Conn) RemoteAddr() net.Addr { return c.ends.Remote }
