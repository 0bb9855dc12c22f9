package ice

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// natConn is a host behind a NAT of its own: a socket with an unreachable address, and
// one or more real sockets that stand for its mappings.
type natConn struct {
	inside    *net.UDPAddr
	symmetric bool                      // a mapping for each destination
	filter    bool                      // accept only from addresses that were sent to
	block     func(netip.AddrPort) bool // destinations that get nothing

	in   chan natPacket
	done chan struct{}
	wg   sync.WaitGroup

	mu       sync.Mutex
	mappings map[netip.AddrPort]*net.UDPConn // key zero unless symmetric
	sentTo   map[netip.AddrPort]bool
	closed   bool
}

type natPacket struct {
	data []byte
	from *net.UDPAddr
}

var natHosts atomic.Uint32

func newNAT(t *testing.T, symmetric, filter bool, block func(netip.AddrPort) bool) *natConn {
	t.Helper()
	host := natHosts.Add(1)
	if block == nil {
		block = func(netip.AddrPort) bool { return false }
	}
	return &natConn{
		inside:    &net.UDPAddr{IP: net.IPv4(10, 77, byte(host>>8), byte(host)), Port: 4000},
		symmetric: symmetric, filter: filter, block: block,
		in: make(chan natPacket, 256), done: make(chan struct{}),
		mappings: make(map[netip.AddrPort]*net.UDPConn), sentTo: make(map[netip.AddrPort]bool),
	}
}

func (n *natConn) WriteTo(b []byte, to net.Addr) (int, error) {
	dst := plain(to.(*net.UDPAddr).AddrPort())
	if !dst.Addr().IsLoopback() || n.block(dst) {
		return len(b), nil // no route out there
	}
	var key netip.AddrPort
	if n.symmetric {
		key = dst
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return 0, net.ErrClosed
	}
	n.sentTo[dst] = true
	out := n.mappings[key]
	if out == nil {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return 0, err
		}
		out = c
		n.mappings[key] = c
		n.wg.Go(func() { n.back(c) })
	}
	_, _ = out.WriteToUDPAddrPort(b, dst)
	return len(b), nil
}

func (n *natConn) back(c *net.UDPConn) {
	buf := make([]byte, 2048)
	for {
		size, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			n.mu.Lock()
			closed := n.closed
			n.mu.Unlock()
			if closed {
				return
			}
			continue
		}
		from = plain(from)
		n.mu.Lock()
		known := n.sentTo[from] || !n.filter
		n.mu.Unlock()
		if !known || n.block(from) {
			continue
		}
		select {
		case n.in <- natPacket{append([]byte(nil), buf[:size]...), net.UDPAddrFromAddrPort(from)}:
		case <-n.done:
			return
		}
	}
}

func (n *natConn) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case p := <-n.in:
		return copy(b, p.data), p.from, nil
	case <-n.done:
		return 0, nil, os.ErrClosed
	}
}

func (n *natConn) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	for _, c := range n.mappings {
		_ = c.Close()
	}
	n.mu.Unlock()
	close(n.done)
	n.wg.Wait()
	return nil
}

func (n *natConn) LocalAddr() net.Addr              { return n.inside }
func (*natConn) SetDeadline(time.Time) error        { return nil }
func (*natConn) SetReadDeadline(time.Time) error    { return nil }
func (*natConn) SetWriteDeadline(t time.Time) error { return nil }
