package overlay

import (
	"net"
	"sync"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
)

// controlPair collects the control connections of one Session.
type controlPair struct {
	dialer bool

	mu            sync.Mutex
	first, second net.Conn
}

// add takes one connection and tells whether the pair is complete now.
func (c *controlPair) add(kind frame.Kind, conn net.Conn) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place := &c.first
	if kind == frame.KindControl2 {
		place = &c.second
	}
	if *place != nil {
		return false, errControlTwice
	}
	*place = conn
	return c.first != nil && c.second != nil, nil
}

func (c *controlPair) conns() ControlConns {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ControlConns{Dialer: c.dialer, First: c.first, Second: c.second}
}

// controlConn is one control connection.
type controlConn struct {
	carrier.Stream
	session       live
	local, remote Addr
}

var _ net.Conn = (*controlConn)(nil)

// Close ends the whole Session: without control it is of no use, and the
// dialer makes a new one.
func (c *controlConn) Close() error {
	c.session.Close(errControlClosed)
	return nil
}

func (c *controlConn) LocalAddr() net.Addr  { return c.local }
func (c *controlConn) RemoteAddr() net.Addr { return c.remote }
