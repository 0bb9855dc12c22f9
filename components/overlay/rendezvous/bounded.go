package rendezvous

import (
	"net"
	"net/netip"
	"sync"

	"cadre.dev/overlay/rendezvous/internal/limit"
)

// bounded is a listener with so many connections at most; more wait in the kernel's
// queue. It accepts only a part of them from one source, and closes further ones: a
// single source must not take all places.
type bounded struct {
	net.Listener
	slots chan struct{}
	each  int
	once  sync.Once
	done  chan struct{}

	mu      sync.Mutex
	sources map[netip.Prefix]int
}

func newBounded(ln net.Listener, all, each int) *bounded {
	return &bounded{
		Listener: ln, slots: make(chan struct{}, all), each: each,
		done: make(chan struct{}), sources: map[netip.Prefix]int{},
	}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
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
		source := sourceOf(conn)
		if !b.enter(source) {
			_ = conn.Close()
			<-b.slots
			continue
		}
		return &slotConn{Conn: conn, free: sync.OnceFunc(func() {
			b.exit(source)
			<-b.slots
		})}, nil
	}
}

// Close implements net.Listener.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.done) })
	return b.Listener.Close()
}

func (b *bounded) enter(source netip.Prefix) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sources[source] >= b.each {
		return false
	}
	b.sources[source]++
	return true
}

func (b *bounded) exit(source netip.Prefix) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sources[source]--; b.sources[source] <= 0 {
		delete(b.sources, source)
	}
}

func sourceOf(conn net.Conn) netip.Prefix {
	var from netip.Addr
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		from = a.AddrPort().Addr()
	}
	return limit.Source(from)
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
