package relay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// idleTime bounds the silence of a connection without an allocation; busyTime that of
	// a connection with one.
	idleTime = 2 * time.Minute
	busyTime = 11 * time.Minute
	// frameTime is how long a frame that has begun may take: a client that
	// writes byte by byte holds nothing for long.
	frameTime = 10 * time.Second
	// writeTime is how long a client may not read before it is left.
	writeTime = 5 * time.Second
)

var errFrame = errors.New("neither STUN nor channel data")

// frames makes packets of a TCP connection: STUN messages and channel data
// follow each other without more framing than their own lengths.
type frames struct {
	conn  net.Conn
	in    *bufio.Reader
	busy  func() bool // set before the first read
	once  sync.Once
	after func()

	write sync.Mutex
}

func newFrames(conn net.Conn, after func()) *frames {
	return &frames{conn: conn, in: bufio.NewReaderSize(conn, 4<<10), busy: func() bool { return false }, after: after}
}

// ReadFrom implements net.PacketConn. It returns whole frames without padding.
func (f *frames) ReadFrom(p []byte) (int, net.Addr, error) {
	wait := idleTime
	if f.busy() {
		wait = busyTime
	}
	if err := f.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return 0, nil, err
	}
	if _, err := f.in.Peek(1); err != nil {
		return 0, nil, err
	}
	if err := f.conn.SetReadDeadline(time.Now().Add(frameTime)); err != nil {
		return 0, nil, err
	}
	head, err := f.in.Peek(4)
	if err != nil {
		return 0, nil, err
	}
	n, padding, err := frameLength(head)
	if err != nil {
		return 0, nil, err
	}
	// The engine takes a datagram that fills its buffer for cut off.
	if n >= len(p) {
		return 0, nil, errFrame
	}
	if _, err := io.ReadFull(f.in, p[:n]); err != nil {
		return 0, nil, err
	}
	if _, err := f.in.Discard(padding); err != nil {
		return 0, nil, err
	}
	return n, f.conn.RemoteAddr(), nil
}

// frameLength reads the length of a frame from its first four bytes.
func frameLength(head []byte) (n, padding int, err error) {
	n = int(binary.BigEndian.Uint16(head[2:4]))
	switch head[0] & 0xc0 {
	case 0x00: // STUN: a header of 20 bytes, then a multiple of 4
		if n%4 != 0 {
			return 0, 0, errFrame
		}
		return 20 + n, 0, nil
	case 0x40: // channel data: a header of 4 bytes, padded to a multiple of 4
		return 4 + n, (4 - n%4) % 4, nil
	}
	return 0, 0, errFrame
}

// WriteTo implements net.PacketConn.
func (f *frames) WriteTo(p []byte, _ net.Addr) (int, error) {
	f.write.Lock()
	defer f.write.Unlock()
	if err := f.conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	n, err := f.conn.Write(p)
	if err != nil {
		// A frame that is cut in two makes nonsense of all that follow.
		_ = f.Close()
	}
	return n, err
}

// Close implements net.PacketConn.
func (f *frames) Close() error {
	err := f.conn.Close()
	f.once.Do(f.after)
	return err
}

// LocalAddr implements net.PacketConn.
func (f *frames) LocalAddr() net.Addr { return f.conn.LocalAddr() }

// SetDeadline implements net.PacketConn. Deadlines are the connection's own.
func (f *frames) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.PacketConn.
func (f *frames) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.PacketConn.
func (f *frames) SetWriteDeadline(time.Time) error { return nil }
