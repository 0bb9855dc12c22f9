package carrier

import (
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// userTimeout is how long the kernel waits for bytes to be acknowledged.
	// Shorter than the dead-man timer of the Session, which also covers a
	// gateway that acknowledges for a dead machine.
	userTimeout = 8 * time.Second
	// notSentLowWater keeps bulk data from queueing ahead of a control message.
	notSentLowWater = 128 << 10
)

// Tune sets the carrier's socket options. Every option is an optional improvement, so a
// kernel's refusal is ignored.
func Tune(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetNoDelay(true)
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		s := int(fd)
		_ = unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
		_ = unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, notSentLowWater)
		if hasBBR() {
			_ = unix.SetsockoptString(s, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "bbr")
		}
	})
}

// hasBBR reports whether the kernel lists BBR. Asking for a module that is not loaded
// would make a privileged process load it.
var hasBBR = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	return err == nil && slices.Contains(strings.Fields(string(b)), "bbr")
})
