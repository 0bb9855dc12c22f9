package punch

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// How is the handshake that made a connection.
type How string

const (
	// Active means that our SYN was answered: an ordinary dial.
	Active How = "active"
	// Passive means that the far side's SYN came to our port.
	Passive How = "passive"
	// Simultaneous means that our SYN was under way when the far side's came.
	Simultaneous How = "simultaneous"
)

// The two bytes before TLS. No TLS record begins with either byte.
const (
	readyByte = 'r'
	pickByte  = 'p'
)

// Info has the kernel's values of a connection.
type Info struct {
	// RTT is the smoothed, MinRTT the least round trip that the kernel thinks
	// it saw, each 0 without a sample.
	RTT, MinRTT time.Duration
	// Congestion names the congestion control.
	Congestion string
	// Sent and Resent count bytes, Resent being part of Sent; NotSent counts the bytes
	// that wait in the socket.
	Sent, Resent, NotSent uint64
	// controlIn counts segments that came without data.
	controlIn uint32
}

// Conn is a connection to a Peer, or to another host at the address that the Peer named:
// it is unauthenticated. It is tuned as package carrier tunes its sockets. Reading and
// writing are as for any net.Conn.
type Conn struct {
	net.Conn
	tcp        *net.TCPConn
	kind       Kind
	how        How
	toListener bool

	// owed: the far side's ready byte is still to be read.
	owed    atomic.Bool
	reading sync.Mutex // held while the owed byte is read

	mu     sync.Mutex
	relief *relief // set while CheckRTT's choice holds; guarded by mu
	closed bool    // guarded by mu
}

// Kind is the kind of the candidate that led here.
func (c *Conn) Kind() Kind { return c.kind }

// How returns how the connection was made, as far as the kernel's counters show.
func (c *Conn) How() How { return c.how }

// ToListener reports that the far end is the Peer's ordinary session listener: this end
// dialled, in either role, and the Peer's Connect does not know of it.
func (c *Conn) ToListener() bool { return c.toListener }

// Local and Remote are the connection's ends.
func (c *Conn) Local() netip.AddrPort { return addrPort(c.tcp.LocalAddr()) }

// Remote is the far end's address.
func (c *Conn) Remote() netip.AddrPort { return addrPort(c.tcp.RemoteAddr()) }

// Info asks the kernel.
func (c *Conn) Info() (Info, error) { return info(c.tcp) }

// Read reads the data after the far side's ready byte.
func (c *Conn) Read(b []byte) (int, error) {
	if c.owed.Load() {
		if err := c.takeReady(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(b)
}

// takeReady reads the far side's ready byte unless that has been done.
func (c *Conn) takeReady() error {
	c.reading.Lock()
	defer c.reading.Unlock()
	if !c.owed.Load() {
		return nil
	}
	if err := c.expect(readyByte); err != nil {
		return err
	}
	c.owed.Store(false)
	return nil
}

// expect reads one byte, which must be want.
func (c *Conn) expect(want byte) error {
	var b [1]byte
	if n, err := c.Conn.Read(b[:]); n == 0 {
		return err
	}
	if b[0] != want {
		return fmt.Errorf("%w: %#02x from %s", ErrGarbage, b[0], c.Remote())
	}
	return nil
}

// Close closes the connection. It may be called more than once.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closed = true
	if c.relief != nil {
		c.relief.timer.Stop()
		c.relief = nil
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// reset ends a connection that was not chosen, without leaving its pair of
// addresses in use for a while as an orderly close would.
func (c *Conn) reset() {
	_ = c.tcp.SetLinger(0)
	_ = c.Close()
}

// addrPort is the netip form of a TCP address.
func addrPort(a net.Addr) netip.AddrPort {
	ap := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
