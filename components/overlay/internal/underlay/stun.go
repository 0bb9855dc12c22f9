package underlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// stunConn is the Socket as pion's mux sees it.
type stunConn struct {
	s      *Socket
	queue  <-chan *packet
	once   sync.Once
	closed chan struct{}
}

const stunQueue = 256

// pushSTUN hands in one message, without waiting.
func (s *Socket) pushSTUN(b []byte, from netip.AddrPort) {
	p := newPacket(b, net.UDPAddrFromAddrPort(from))
	if p == nil {
		s.counts.oversized.Add(1)
		return
	}
	select {
	case s.stun <- p:
	default:
		p.release()
		s.counts.stunFull.Add(1)
	}
}

// ReadFrom reads one message, and waits for it until the Socket is closed.
func (c *stunConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		select {
		case p := <-c.queue:
			from, n := p.from, p.n
			fits := n <= len(b)
			copy(b, p.bytes())
			p.release()
			if fits {
				return n, from, nil
			}
			c.s.counts.oversized.Add(1)
		case <-c.closed:
			return 0, nil, errClosed
		case <-c.s.done:
			return 0, nil, errClosed
		}
	}
}

// WriteTo sends to a real address. Unlike QUIC's sender, WriteTo returns the errors: they
// concern one check, and its sender needs them.
func (c *stunConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	to, ok := addr.(*net.UDPAddr)
	if !ok {
		return 0, fmt.Errorf("send to %s: %w", addr.Network(), os.ErrInvalid)
	}
	k := &c.s.counts
	k.syscallsOut.Add(1)
	k.datagramsOut.Add(1)
	k.bytesOut.Add(uint64(len(b)))
	n, err := c.s.conn.WriteToUDPAddrPort(b, normal(to.AddrPort()))
	if err != nil && !errors.Is(err, net.ErrClosed) {
		k.sendErrors.Add(1)
	}
	return n, err
}

// LocalAddr is the socket's.
func (c *stunConn) LocalAddr() net.Addr { return c.s.LocalAddr() }

// Close ends the readers. The Socket is not the mux's to close.
func (c *stunConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// SetDeadline is accepted and ignored; so are the other two.
func (c *stunConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline is accepted and ignored.
func (c *stunConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is accepted and ignored.
func (c *stunConn) SetWriteDeadline(time.Time) error { return nil }
