package segment

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// size is the payload of one TCP segment, options included. With headers that is 1,228
// bytes over IPv4 and 1,248 over IPv6, as much as the datagrams that every path is
// assumed to carry (RFC 8200, 5: 1,280).
const size = 1188

// Small has both ends of a connection send small segments: it is a [net.Dialer]'s
// Control. It affects only speed, so a kernel's refusal is ignored.
func Small(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, size)
	})
}
