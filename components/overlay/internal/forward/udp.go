package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
)

const (
	// flowIdle is how long an unused flow is remembered.
	flowIdle = 60 * time.Second
	// maxFlows bounds the flows of one Peer in each direction.
	maxFlows = 256
	// usualDatagram is the receive buffer of a Session that has carried a datagram; a
	// larger datagram is rare and gets a buffer of its own.
	usualDatagram = 2 << 10
	// socketBuffer takes a burst of gossip.
	socketBuffer = 512 << 10
)

// udp forwards one Peer's datagrams.
//
// A bound socket listens on VIP:port for each offered port: apps send to it, and the
// Peer's own datagrams from that port leave through it, so that both look like one host.
// The Peer's datagrams from any other port leave through a flow socket bound to that port
// of the VIP.
type udp struct {
	peer    *Peer
	dropped atomic.Uint64

	mu    sync.Mutex
	vip   netip.Addr
	bound map[uint16]*socket // by offered port
	flows map[uint16]*socket // by the Peer's source port
	calls map[call]*caller   // datagrams of local apps to bound sockets
	// retrying are offered ports that cannot be bound, and are tried again.
	retrying map[uint16]bool
	closed   bool
	// waiting are datagrams that wait for a Session, waitingBytes long in all.
	waiting      []waitingDatagram
	waitingBytes int
}

// call names a flow that an app here opened: its own port, and the Peer's.
type call struct{ offered, app uint16 }

// caller is where the Peer's answers to a call go.
type caller struct {
	addr netip.AddrPort
	used time.Time
}

// socket is one UDP socket on the Peer's VIP.
type socket struct {
	conn *net.UDPConn
	port uint16
	used atomic.Int64 // Unix nanoseconds
}

func newUDP(p *Peer) *udp {
	return &udp{
		peer:  p,
		bound: make(map[uint16]*socket), flows: make(map[uint16]*socket),
		calls: make(map[call]*caller), retrying: make(map[uint16]bool),
	}
}

// update binds the offered ports and unbinds all others. The Peer's lock is held; udp's
// is taken after it, never before.
func (u *udp) update(vip netip.Addr, offered []uint16, moved bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.vip = vip
	keep := make(map[uint16]bool, len(offered))
	for _, port := range offered {
		keep[port] = true
	}
	for port, s := range u.bound {
		if moved || !keep[port] {
			s.conn.Close()
			delete(u.bound, port)
		}
	}
	for port, s := range u.flows {
		if moved || keep[port] {
			s.conn.Close()
			delete(u.flows, port)
		}
	}
	for c := range u.calls {
		if moved || !keep[c.offered] {
			delete(u.calls, c)
		}
	}
	for port := range keep {
		if u.bound[port] == nil {
			u.bindLocked(port)
		}
	}
}

// bindLocked listens for apps on an offered port.
func (u *udp) bindLocked(port uint16) {
	s, err := u.openLocked(u.peer.cfg.Listener, port)
	if err != nil {
		if !u.retrying[port] {
			u.retrying[port] = true
			u.peer.log.Warn("offered port cannot be listened on", "protocol", UDP, "port", port, "error", err)
			u.retryLocked(port)
		}
		return
	}
	u.bound[port] = s
	c := u.peer.counterLocked(Port{UDP, port}, outbound)
	u.peer.wg.Go(func() { u.readApps(s, c) })
}

// retryLocked tries an offered port again after a while.
func (u *udp) retryLocked(port uint16) {
	u.peer.wg.Go(func() {
		select {
		case <-u.peer.closing:
			return
		case <-time.After(rebindWait):
		}
		u.peer.mu.Lock()
		defer u.peer.mu.Unlock()
		u.mu.Lock()
		defer u.mu.Unlock()
		wanted := false
		for _, o := range u.peer.rules.Offers {
			wanted = wanted || o == Port{UDP, port}
		}
		switch {
		case !wanted || u.closed || u.bound[port] != nil:
			delete(u.retrying, port)
		default:
			u.bindLocked(port)
			if u.bound[port] == nil {
				u.retryLocked(port)
			} else {
				delete(u.retrying, port)
			}
		}
	})
}

func (u *udp) openLocked(listener Listener, port uint16) (*socket, error) {
	pc, err := listener.ListenPacket(context.Background(), "udp", netip.AddrPortFrom(u.vip, port).String())
	if err != nil {
		return nil, err
	}
	conn, ok := pc.(*net.UDPConn)
	if !ok {
		pc.Close()
		return nil, fmt.Errorf("listener of UDP gives %T, want *net.UDPConn", pc)
	}
	_ = conn.SetReadBuffer(socketBuffer)
	s := &socket{conn: conn, port: port}
	s.touch()
	return s, nil
}

func (s *socket) touch() { s.used.Store(time.Now().UnixNano()) }

// idle is how long nothing has used the socket.
func (s *socket) idle() time.Duration { return time.Since(time.Unix(0, s.used.Load())) }

// readApps carries the apps' datagrams to an offered port.
func (u *udp) readApps(s *socket, c *count) {
	buf := make([]byte, frame.MaxPayload)
	var out []byte
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			if u.gone(s) || errors.Is(err, net.ErrClosed) {
				return
			}
			u.dropped.Add(1)
			continue // an ICMP answer to an earlier send
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if !u.noteCall(call{s.port, from.Port()}, from) {
			u.dropped.Add(1)
			continue
		}
		out = frame.Datagram{Source: from.Port(), Destination: s.port, Payload: buf[:n]}.Append(out[:0])
		if !u.carry(out) {
			u.dropped.Add(1)
			continue
		}
		c.out.Add(uint64(n))
		c.datagrams.Add(1)
	}
}

// gone reports whether s has been closed on purpose.
func (u *udp) gone(s *socket) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.closed || u.bound[s.port] != s
}

// noteCall remembers where answers go; false when there are too many callers.
func (u *udp) noteCall(c call, from netip.AddrPort) bool {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if old := u.calls[c]; old != nil {
		old.addr, old.used = from, now
		return true
	}
	if len(u.calls) >= maxFlows {
		for key, old := range u.calls {
			if now.Sub(old.used) > flowIdle {
				delete(u.calls, key)
			}
		}
		if len(u.calls) >= maxFlows {
			return false
		}
	}
	u.calls[c] = &caller{addr: from, used: now}
	return true
}

// answerTo finds the app that a datagram of the Peer answers.
func (u *udp) answerTo(d frame.Datagram) (*socket, netip.AddrPort, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.bound[d.Source]
	c := u.calls[call{d.Source, d.Destination}]
	if s == nil || c == nil || time.Since(c.used) > flowIdle {
		return nil, netip.AddrPort{}, false
	}
	c.used = time.Now()
	return s, c.addr, true
}

// ServeDatagrams distributes the Peer's datagrams on session until it ends.
func (p *Peer) ServeDatagrams(session carrier.Session) error {
	var buf []byte
	for {
		b, err := session.ReceiveDatagram(buf)
		if err != nil {
			return err
		}
		if buf == nil {
			buf = make([]byte, usualDatagram)
		}
		d, err := frame.ParseDatagram(b)
		if err != nil {
			session.Close(err)
			return err
		}
		p.touch()
		p.udp.deliver(d)
	}
}

func (u *udp) deliver(d frame.Datagram) {
	if s, to, ok := u.answerTo(d); ok {
		c := u.peer.counter(Port{UDP, d.Source}, outbound)
		u.send(s, to, d.Payload, c)
		return
	}
	port := Port{UDP, d.Destination}
	if !u.peer.accepts(port) {
		return
	}
	s := u.socketFor(d.Source)
	if s == nil {
		u.dropped.Add(1)
		return
	}
	u.send(s, netip.AddrPortFrom(u.peer.cfg.SelfVIP, d.Destination), d.Payload, u.peer.counter(port, inbound))
}

func (u *udp) send(s *socket, to netip.AddrPort, payload []byte, c *count) {
	s.touch()
	if _, err := s.conn.WriteToUDPAddrPort(payload, to); err != nil {
		u.dropped.Add(1)
		return
	}
	c.in.Add(uint64(len(payload)))
	c.datagrams.Add(1)
}

// close ends every socket; the Peer's lock is held.
func (u *udp) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for _, s := range u.bound {
		s.conn.Close()
	}
	for _, s := range u.flows {
		s.conn.Close()
	}
}
