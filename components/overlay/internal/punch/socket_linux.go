package punch

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// backlog is how many connections may wait at the port between Gather and the
// end of Connect; other hosts can make some too.
const backlog = 16

// tcpRTOMaxMS is TCP_RTO_MAX_MS of linux/tcp.h, and rtoMax is its new value, the least
// that the kernel accepts.
const (
	tcpRTOMaxMS = 44
	rtoMax      = time.Second
)

// shared lets several sockets of this process have one local port.
//
// It also bounds how long TCP waits before it sends again. After lost or early SYNs, the
// kernel takes the time until the answer of one for the round trip. It would repeat the
// next lost segment only after many seconds, when a silent session has been given up
// already. Kernels before 6.15 lack this bound; a connection works without it.
func shared(_, _ string, c syscall.RawConn) error {
	var err error
	if ctl := c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, tcpRTOMaxMS, int(rtoMax.Milliseconds()))
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		if err == nil {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}
	}); ctl != nil {
		return ctl
	}
	return err
}

// sharedAbrupt is shared for a socket with a connection that ends with a RST unless it is
// chosen, even if it comes up while its dial is given up.
func sharedAbrupt(network, address string, c syscall.RawConn) error {
	err := shared(network, address, c)
	if ctl := c.Control(func(fd uintptr) {
		if err == nil {
			err = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		}
	}); ctl != nil {
		return ctl
	}
	return err
}

// shorten gives a listener a backlog fit for one Peer.
func shorten(ln *net.TCPListener) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	if ctl := raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), backlog) }); ctl != nil {
		return ctl
	}
	return err
}

// info asks the kernel about a connection.
func info(conn *net.TCPConn) (Info, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Info{}, err
	}
	var ti *unix.TCPInfo
	var name string
	if ctl := raw.Control(func(fd uintptr) {
		ti, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			name, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		}
	}); ctl != nil {
		return Info{}, ctl
	}
	if err != nil {
		return Info{}, err
	}
	return Info{
		RTT: micros(ti.Rtt), MinRTT: micros(ti.Min_rtt), Congestion: name,
		Sent: ti.Bytes_sent, Resent: ti.Bytes_retrans, NotSent: uint64(ti.Notsent_bytes),
		controlIn: ti.Segs_in - ti.Data_segs_in,
	}, nil
}

func micros(n uint32) time.Duration {
	if n == ^uint32(0) { // no sample yet
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// setCongestion chooses the congestion control of a connection. The kernel must allow the
// algorithm to every process.
func setCongestion(conn *net.TCPConn, name string) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	if ctl := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	}); ctl != nil {
		return ctl
	}
	return err
}
