package relay

import (
	"fmt"
	"net"
	"time"

	"github.com/pion/turn/v3"

	"cadre.dev/overlay/rendezvous/internal/limit"
)

const engineMTU = 1600

// serveUDP starts the engine of a UDP socket.
func (r *Relay) serveUDP(conn net.PacketConn) error {
	return r.start(newRelayFilter(r, conn))
}

// serveTCP accepts connections. Each has an engine of its own, so that the filters' proofs
// of two connections cannot be mixed up.
func (r *Relay) serveTCP(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			if r.isClosed() {
				return
			}
			// Out of descriptors, most likely: other connections will close.
			time.Sleep(50 * time.Millisecond)
			continue
		}
		r.serveConn(conn, func() {})
	}
}

// Serve runs STUN and TURN on a connection that the caller has accepted, until the
// connection ends.
func (r *Relay) Serve(conn net.Conn) {
	ended := make(chan struct{})
	r.serveConn(conn, func() { close(ended) })
	<-ended
}

// serveConn starts the engine of a connection; after is called once when it has ended.
func (r *Relay) serveConn(conn net.Conn, after func()) {
	if !r.keep(conn) {
		_ = conn.Close()
		after()
		return
	}
	f := newFrames(conn, func() {
		r.forget(conn)
		after()
	})
	filter := newRelayFilter(r, f)
	f.busy = filter.any
	if err := r.start(filter); err != nil {
		r.log.Error("connection not served", "error", err)
		_ = f.Close()
	}
}

// start runs pion/turn on the messages that the filter passes.
func (r *Relay) start(g *relayFilter) error {
	r.wg.Add(1)
	_, err := turn.NewServer(turn.ServerConfig{
		Realm:         Realm,
		LoggerFactory: engineLog{r.log},
		InboundMTU:    engineMTU,
		AuthHandler:   func(string, string, net.Addr) ([]byte, bool) { return g.key, g.key != nil },
		PacketConnConfigs: []turn.PacketConnConfig{{
			PacketConn: g, RelayAddressGenerator: generator{g},
			// The filter has judged every request; the socket judges every datagram.
			PermissionHandler: turn.DefaultPermissionHandler,
		}},
	})
	if err != nil {
		r.wg.Done()
		return fmt.Errorf("start TURN: %w", err)
	}
	return nil
}

// generator binds relay sockets for the claim that the filter has proven.
type generator struct{ filter *relayFilter }

// Validate implements turn.RelayAddressGenerator.
func (generator) Validate() error { return nil }

// AllocatePacketConn implements turn.RelayAddressGenerator.
func (g generator) AllocatePacketConn(string, int) (net.PacketConn, net.Addr, error) {
	c := g.filter.claim
	if c == nil {
		return nil, nil, errQuota
	}
	a, addr, err := g.filter.relay.allocate(c)
	if err != nil {
		return nil, nil, err
	}
	return a, addr, nil
}

// AllocateConn implements turn.RelayAddressGenerator: nothing is relayed to TCP
// ports (OVL-11).
func (generator) AllocateConn(string, int) (net.Conn, net.Addr, error) {
	return nil, nil, ErrPeerForbidden
}

// keep counts a connection in, unless there are too many.
func (r *Relay) keep(conn net.Conn) bool {
	from, ok := addrPort(conn.RemoteAddr())
	if !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.conns) >= r.cfg.Limits.Connections {
		return false
	}
	same := 0
	source := limit.Source(from.Addr())
	for _, s := range r.conns {
		if s == source {
			same++
		}
	}
	if same >= r.cfg.Limits.ConnectionsPerIP {
		return false
	}
	r.conns[conn] = source
	return true
}

func (r *Relay) forget(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}

func (r *Relay) isClosed() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.closed
}

func (g *relayFilter) any() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.allocs) > 0
}

var _ net.PacketConn = (*allocation)(nil)
