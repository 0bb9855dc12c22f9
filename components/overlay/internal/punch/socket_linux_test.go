package punch

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A connection of either origin retransmits soon, after a handshake of any length.
func TestLostSegmentsAreSentAgainSoon(t *testing.T) {
	a, b := pair(t, Config{})
	x, y := connect(t.Context(), t, a, b.Candidates(), true), connect(t.Context(), t, b, a.Candidates(), false)
	for _, conn := range []*Conn{await(t, x), await(t, y)} {
		got, err := rtoBound(conn.tcp)
		if errors.Is(err, unix.ENOPROTOOPT) {
			t.Skip("skipped: this kernel has no bound to set")
		}
		if err != nil || int64(got) != rtoMax.Milliseconds() {
			t.Errorf("%s connection: bound of %d ms, want %v; %v", conn.How(), got, rtoMax, err)
		}
		conn.Close()
	}
}

func rtoBound(conn *net.TCPConn) (ms int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	if ctl := raw.Control(func(fd uintptr) { ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, tcpRTOMaxMS) }); ctl != nil {
		return 0, ctl
	}
	return ms, err
}
