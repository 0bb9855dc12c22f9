package forward

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Self lets the workloads of this machine reach listeners on 127.0.0.1 at the machine's own VIP. A
// program that goes through all members, as patronictl does, calls its own machine by the VIP as it
// calls the others; without Self that one call would be refused. Make it with [NewSelf]; all
// methods may be called concurrently.
type Self struct {
	cfg Config
	wg  sync.WaitGroup

	mu        sync.Mutex
	listeners map[uint16]*listener      // guarded by mu
	open      map[*net.TCPConn]struct{} // both ends of each connection; guarded by mu
	closed    bool                      // guarded by mu
}

// NewSelf listens at nothing before the first Update.
func NewSelf(cfg Config) *Self {
	return &Self{cfg: cfg, listeners: map[uint16]*listener{}, open: map[*net.TCPConn]struct{}{}}
}

// Update has s listen at these ports of the machine's VIP, and at no others.
func (s *Self) Update(ports []uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for port, l := range s.listeners {
		if !slices.Contains(ports, port) {
			l.close()
			delete(s.listeners, port)
		}
	}
	for _, port := range ports {
		if s.listeners[port] == nil {
			l := newListener(netip.AddrPortFrom(s.cfg.SelfVIP, port))
			s.listeners[port] = l
			s.wg.Go(func() { l.listen(s.cfg, s.cfg.Log, func(conn *net.TCPConn) bool { return s.take(conn, port) }) })
		}
	}
}

// Stop frees every port and ends every connection. Wait returns when s holds no goroutine.
func (s *Self) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.listeners {
		l.close()
	}
	s.listeners = nil
	for conn := range s.open {
		_ = conn.SetLinger(0)
		conn.Close()
	}
}

// Wait waits for the connections that Stop ended.
func (s *Self) Wait() { s.wg.Wait() }

// take carries one connection in the background, unless s is stopped.
func (s *Self) take(conn *net.TCPConn, port uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if len(s.open) >= 2*maxConns || !s.local(conn) {
		_ = conn.SetLinger(0)
		conn.Close()
		return true
	}
	s.open[conn] = struct{}{}
	s.wg.Go(func() { s.carry(conn, port) })
	return true
}

// local reports whether a workload of this machine opened conn. A connection that the node dials
// for a Peer comes from the Peer's VIP: that Peer may reach the VIP's port, and not that of 127.0.0.1.
func (s *Self) local(conn *net.TCPConn) bool {
	from := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	return from == loopback || from == s.cfg.SelfVIP
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func (s *Self) carry(conn *net.TCPConn, port uint16) {
	defer s.drop(conn)
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	// The workload sees its own machine's VIP, as it sees a Peer's.
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.cfg.SelfVIP, 0))}
	c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(loopback, port).String())
	if err != nil {
		// The app's connection ends with a reset, as one to a port with no listener.
		_ = conn.SetLinger(0)
		return
	}
	to := c.(*net.TCPConn)
	defer s.drop(to)
	if !s.adopt(to) {
		return
	}
	other := make(chan struct{})
	go func() {
		defer close(other)
		pass(to, conn)
	}()
	pass(conn, to)
	<-other
}

// pass copies until src ends, and ends dst. An error in one direction ends both connections.
func pass(dst, src *net.TCPConn) {
	_, err := io.Copy(dst, src)
	if err == nil {
		err = dst.CloseWrite()
	}
	if err != nil {
		for _, conn := range []*net.TCPConn{dst, src} {
			_ = conn.SetLinger(0)
			conn.Close()
		}
	}
}

func (s *Self) adopt(conn *net.TCPConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[conn] = struct{}{}
	return true
}

func (s *Self) drop(conn *net.TCPConn) {
	conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
}
