package load

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Sockets are the TCP sockets of an application. The zero value takes them as
// the machine gives them.
type Sockets struct {
	// Congestion is the congestion control by its kernel name; "" is the machine's default. The
	// queue of a connection in a tunnel below it depends on it.
	Congestion string `json:"congestion,omitempty"`
}

// Name is the congestion control's name, the machine's where none was chosen.
func (s Sockets) Name() string {
	if s.Congestion != "" {
		return s.Congestion
	}
	name, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(name))
}

// Dial dials and says nothing.
func (s Sockets) Dial(ctx context.Context, to string) (*net.TCPConn, error) {
	d := net.Dialer{Control: s.control}
	conn, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// Mode is the [Dialer] that says the mode with the first byte.
func (s Sockets) Mode(ctx context.Context, to string, mode Mode) (net.Conn, error) {
	conn, err := s.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	return Announce(conn, mode)
}

// Listen listens; accepted connections have the same settings as dialed ones.
func (s Sockets) Listen(ctx context.Context, address string) (net.Listener, error) {
	return (&net.ListenConfig{Control: s.control}).Listen(ctx, "tcp", address)
}

func (s Sockets) control(_, _ string, raw syscall.RawConn) error {
	if s.Congestion == "" {
		return nil
	}
	var err error
	if controlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, s.Congestion)
	}); controlErr != nil {
		return controlErr
	}
	if err != nil {
		return fmt.Errorf("choose congestion control %s: %w", s.Congestion, err)
	}
	return nil
}
