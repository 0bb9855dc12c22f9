package ice

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	pion "github.com/pion/ice/v3"
	"github.com/pion/transport/v3/deadline"
)

const (
	// relayQueue bounds the datagrams that wait for Read; more are lost.
	relayQueue = 256
	// relayMTU bounds one datagram; the agent accepts no longer ones.
	relayMTU = 8192
)

// relayConn carries datagrams over the agent's relayed pair.
type relayConn struct {
	local  netip.AddrPort
	queue  chan *[]byte
	done   chan struct{}
	close  sync.Once
	expiry *deadline.Deadline
	pair   atomic.Pointer[pion.CandidatePair]
	spare  sync.Pool
}

var _ net.Conn = (*relayConn)(nil)

func newRelayConn(pair *pion.CandidatePair) *relayConn {
	c := &relayConn{
		local:  candidateAddr(pair.Local),
		queue:  make(chan *[]byte, relayQueue),
		done:   make(chan struct{}),
		expiry: deadline.New(),
	}
	c.pair.Store(pair)
	return c
}

// pump moves the agent's received data into the queue, until the agent ends. The agent's
// data is all ours: direct data never passes the agent.
func (c *relayConn) pump(from io.Reader) {
	defer c.shut()
	buf := make([]byte, relayMTU)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		b, ok := c.spare.Get().(*[]byte)
		if !ok {
			b = new([]byte)
		}
		*b = append((*b)[:0], buf[:n]...)
		select {
		case c.queue <- b:
		case <-c.done: // the reader has gone; the agent's buffer still drains
		default:
		}
	}
}

// Read gives one datagram. It ends with net.ErrClosed.
func (c *relayConn) Read(p []byte) (int, error) {
	select {
	case <-c.done:
		return 0, net.ErrClosed
	case <-c.expiry.Done():
		return 0, os.ErrDeadlineExceeded
	default:
	}
	select {
	case b := <-c.queue:
		n := copy(p, *b)
		short := n < len(*b)
		c.spare.Put(b)
		if short {
			return n, io.ErrShortBuffer
		}
		return n, nil
	case <-c.done:
		return 0, net.ErrClosed
	case <-c.expiry.Done():
		return 0, os.ErrDeadlineExceeded
	}
}

// Write sends p as one datagram. p must not look like STUN.
func (c *relayConn) Write(p []byte) (int, error) {
	if !c.open() {
		return 0, net.ErrClosed
	}
	return c.pair.Load().Write(p)
}

// Close ends Read and Write; the relay itself ends with its Search.
func (c *relayConn) Close() error {
	c.shut()
	return nil
}

func (c *relayConn) open() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

func (c *relayConn) shut() { c.close.Do(func() { close(c.done) }) }

func (c *relayConn) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(c.local) }

func (c *relayConn) RemoteAddr() net.Addr {
	return net.UDPAddrFromAddrPort(candidateAddr(c.pair.Load().Remote))
}

func (c *relayConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *relayConn) SetReadDeadline(t time.Time) error {
	c.expiry.Set(t)
	return nil
}

// SetWriteDeadline does nothing: a Write never waits for the far side.
func (*relayConn) SetWriteDeadline(time.Time) error { return nil }

func candidateAddr(c pion.Candidate) netip.AddrPort {
	a, err := netip.ParseAddr(c.Address())
	if err != nil || c.Port() <= 0 || c.Port() >= 1<<16 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(c.Port()))
}
