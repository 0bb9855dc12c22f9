package underlay

import (
	"log/slog"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// bufferSize is the requested kernel buffer per direction: a burst of coalesced batches
// overflows the usual 208 KiB. The kernel doubles it for its own needs.
const bufferSize = 4 << 20

// growBuffers sets the socket's buffers, past the machine's limit where the
// process may, and warns once when it got less.
func growBuffers(_ *net.UDPConn, raw syscall.RawConn, log *slog.Logger) {
	var in, out int
	err := raw.Control(func(fd uintptr) {
		s := int(fd)
		if unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bufferSize) != nil {
			_ = unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferSize)
		}
		if unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, bufferSize) != nil {
			_ = unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_SNDBUF, bufferSize)
		}
		in, _ = unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUF)
		out, _ = unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_SNDBUF)
	})
	if err != nil || in < bufferSize || out < bufferSize {
		log.Warn("udp buffers are smaller than requested, raise net.core.rmem_max and wmem_max",
			"wanted", bufferSize, "receive", in, "send", out, "error", err)
	}
}
