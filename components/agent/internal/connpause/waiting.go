package connpause

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// past is a deadline that was missed.
var past = time.Unix(1, 0)

// wake ends clientGone for c.
func wake(c *net.TCPConn) { _ = c.SetReadDeadline(past) }

// clientGone returns true when c's client has gone away, false when it was woken. It takes no byte
// from the connection.
//
// A client that closes before it has sent a byte is gone. A client that has sent bytes and then
// ends its side may only be done with sending, so it keeps its place until a reset.
func clientGone(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	_ = raw.Read(func(fd uintptr) bool {
		gone = atEnd(int(fd))
		return gone
	})
	return gone
}

// atEnd looks at a socket without waiting.
func atEnd(fd int) bool {
	var one [1]byte
	n, _, err := syscall.Recvfrom(fd, one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return false
	case err != nil, n == 0:
		return true
	}
	failed, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	return err != nil || failed != 0
}
