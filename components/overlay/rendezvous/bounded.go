package rendezvous

import (
	"net"
	"sync"
)

// bounded is a listener with so many connections at most; more wait in the
// kernel's queue.
type bounded struct {
	net.Listener
	slots chan struct{}
	once  sync.Once
	done  chan struct{}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.done:
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &slotConn{Conn: conn, free: sync.OnceFunc(func() { <-b.slots })}, nil
}

// Close implements net.Listener.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.done) })
	return b.Listener.Close()
}

type slotConn struct {
	net.Conn
	free func()
}

// Close implements net.Conn.
func (c *slotConn) Close() error {
	err := c.Conn.Close()
	c.free()
	return err
}
