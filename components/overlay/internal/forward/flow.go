package forward

import (
	"net"
	"net/netip"
	"time"

	"cadre.dev/overlay/internal/frame"
)

// socketFor gives the socket that stands for the Peer's source port: the bound one if the
// port is offered, else a flow socket. It returns nil if both are impossible.
func (u *udp) socketFor(source uint16) *socket {
	// The Peer's lock comes first, as in update.
	u.peer.mu.Lock()
	defer u.peer.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.bound[source]; s != nil {
		return s
	}
	if s := u.flows[source]; s != nil {
		return s
	}
	if u.closed {
		return nil
	}
	if len(u.flows) >= maxFlows {
		u.evictLocked()
	}
	s, err := u.openLocked(&net.ListenConfig{}, source)
	if err != nil {
		u.peer.log.Debug("no socket for the peer's source port", "protocol", UDP, "port", source, "error", err)
		return nil
	}
	u.flows[source] = s
	u.peer.wg.Go(func() { u.readAnswers(s) })
	return s
}

// evictLocked closes the flow that has been idle for longest.
func (u *udp) evictLocked() {
	var oldest *socket
	for _, s := range u.flows {
		if oldest == nil || s.used.Load() < oldest.used.Load() {
			oldest = s
		}
	}
	oldest.conn.Close()
	delete(u.flows, oldest.port)
}

// readAnswers carries the workloads' answers to a flow, until it is idle.
func (u *udp) readAnswers(s *socket) {
	defer s.conn.Close()
	buf := make([]byte, frame.MaxPayload)
	var out []byte
	for {
		_ = s.conn.SetReadDeadline(time.Now().Add(flowIdle))
		n, from, err := s.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			if u.flowOver(s) {
				return
			}
			continue
		}
		u.answer(s, from, buf[:n], &out)
	}
}

func (u *udp) answer(s *socket, from netip.AddrPort, payload []byte, out *[]byte) {
	port := Port{UDP, from.Port()}
	// Only a port that the Peer may reach may answer it.
	if !u.peer.accepts(port) {
		u.dropped.Add(1)
		return
	}
	s.touch()
	*out = frame.Datagram{Source: from.Port(), Destination: s.port, Payload: payload}.Append((*out)[:0])
	if !u.carry(*out) {
		u.dropped.Add(1)
		return
	}
	c := u.peer.counter(port, inbound)
	c.out.Add(uint64(len(payload)))
	c.datagrams.Add(1)
}

// flowOver reports whether s is closed or idle, and removes it if so.
func (u *udp) flowOver(s *socket) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || u.flows[s.port] != s {
		return true
	}
	if s.idle() < flowIdle {
		return false
	}
	delete(u.flows, s.port)
	return true
}
