package forward

import (
	"net"

	"golang.org/x/sys/unix"
)

// tcpClosed is the state of a socket that has been reset, in the kernel's
// numbering (include/net/tcp_states.h).
const tcpClosed = 7

// wasReset reports whether the far side has reset a connection that this side has not
// half-closed. The kernel reports a reset once: after a write has taken the error, a read
// sees an apparently clean end.
func wasReset(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true // we have aborted it ourselves
	}
	reset := true
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		reset = err == nil && info.State == tcpClosed
	})
	return reset
}
