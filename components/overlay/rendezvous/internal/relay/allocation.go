package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"cadre.dev/overlay/rendezvous/internal/member"
)

// errQuota reports an identity or a server with all the allocations it may have.
var errQuota = errors.New("allocation quota reached")

const (
	// maxPermissions and maxChannels bound the requests of one allocation in its life.
	maxPermissions = 1024
	maxChannels    = 256
)

// claim is a proven wish for an allocation, between the filter and the engine.
type claim struct {
	owner    member.Member
	username string
	key      []byte
	expires  time.Time
	from     netip.AddrPort
	filter   *relayFilter
}

// allocation is the relay socket of one allocation as the engine sees it.
type allocation struct {
	relay  *Relay
	filter *relayFilter
	owner  member.Member
	from   netip.AddrPort
	conn   *net.UDPConn
	port   uint16
	// near is where other allocations of this relay reach this one: the relay's
	// public address may be a translator's that does not turn around.
	near netip.Addr
	once sync.Once

	mu          sync.Mutex
	username    string // that the client signs with
	key         []byte
	expires     time.Time
	permissions map[netip.Addr]struct{}
	channels    map[uint16]struct{}
}

// allocate binds a relay socket for c. The engine's requested port is ignored:
// ports cannot be chosen by clients.
func (r *Relay) allocate(c *claim) (*allocation, net.Addr, error) {
	if err := r.reserve(c.owner); err != nil {
		return nil, nil, err
	}
	conn, err := r.bind()
	if err != nil {
		r.release(c.owner)
		return nil, nil, fmt.Errorf("bind relay socket: %w", err)
	}
	_ = conn.SetReadBuffer(1 << 20)
	_ = conn.SetWriteBuffer(1 << 20)
	a := &allocation{
		relay: r, filter: c.filter, owner: c.owner, from: c.from, conn: conn,
		port: conn.LocalAddr().(*net.UDPAddr).AddrPort().Port(), near: r.near(),
		username: c.username, key: c.key, expires: c.expires,
		permissions: map[netip.Addr]struct{}{}, channels: map[uint16]struct{}{},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.releaseLocked(c.owner)
		return nil, nil, errors.Join(net.ErrClosed, conn.Close())
	}
	r.allocs[a] = struct{}{}
	r.byPort[a.port] = a
	c.filter.put(a)
	// The engine's goroutine reads from the socket until it is closed.
	r.wg.Add(1)
	return a, net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.cfg.RelayIP, a.port)), nil
}

func (r *Relay) reserve(owner member.Member) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	total := 0
	for _, n := range r.perSlot {
		total += n
	}
	if r.draining || total >= r.cfg.Limits.Allocations || r.perSlot[owner.ID] >= r.cfg.Limits.AllocationsPerSlot {
		return errQuota
	}
	r.perSlot[owner.ID]++
	return nil
}

func (r *Relay) release(owner member.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseLocked(owner)
}

func (r *Relay) releaseLocked(owner member.Member) {
	if r.perSlot[owner.ID]--; r.perSlot[owner.ID] <= 0 {
		delete(r.perSlot, owner.ID)
	}
}

// bind tries ports of the range in random order.
func (r *Relay) bind() (*net.UDPConn, error) {
	var lc net.ListenConfig
	try := func(port int) (*net.UDPConn, error) {
		conn, err := lc.ListenPacket(context.Background(), "udp4", net.JoinHostPort(r.cfg.RelayBind.String(), strconv.Itoa(port)))
		if err != nil {
			return nil, err
		}
		return conn.(*net.UDPConn), nil
	}
	if r.cfg.PortMax == 0 {
		return try(0)
	}
	n := int(r.cfg.PortMax) - int(r.cfg.PortMin) + 1
	start := rand.IntN(n) //nolint:gosec // spreads ports, hides nothing
	for i := range min(n, 128) {
		port := int(r.cfg.PortMin) + (start+i)%n
		r.mu.RLock()
		_, taken := r.byPort[uint16(port)]
		r.mu.RUnlock()
		if taken {
			continue
		}
		if conn, err := try(port); err == nil {
			return conn, nil
		}
	}
	return nil, errors.New("no free port found")
}

func (r *Relay) near() netip.Addr {
	if r.cfg.RelayBind.IsUnspecified() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return r.cfg.RelayBind
}

// neighbour gives the allocation of this relay at port, if to's owner may talk
// to it: relays meet within a cluster.
func (r *Relay) neighbour(port uint16, of member.Member) *allocation {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if a := r.byPort[port]; a != nil && a.owner.ID.Cluster == of.ID.Cluster {
		return a
	}
	return nil
}

// until is when a ends unless its owner shows itself again.
func (a *allocation) until() time.Time {
	a.mu.Lock()
	expires := a.expires
	a.mu.Unlock()
	return a.relay.cfg.Mint.Until(a.owner, a.from.Addr(), expires)
}

// ReadFrom gives the next datagram of a peer to the engine.
func (a *allocation) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := a.conn.ReadFromUDPAddrPort(p)
		if err != nil {
			a.relay.finish(a)
			return n, nil, err
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		switch {
		case from.Addr() == a.near || from.Addr() == a.relay.cfg.RelayIP:
			if a.relay.neighbour(from.Port(), a.owner) == nil {
				a.relay.cfg.Meter.Dropped("own address")
				continue
			}
			from = netip.AddrPortFrom(a.relay.cfg.RelayIP, from.Port())
		case !a.relay.addresses.allows(from.Addr()):
			a.relay.cfg.Meter.Dropped("forbidden source")
			continue
		}
		// Unpermitted senders must not use up the owner's relay quota.
		if !a.permits(from.Addr()) {
			a.relay.cfg.Meter.Dropped("no permission")
			continue
		}
		if a.spend(n) {
			return n, net.UDPAddrFromAddrPort(from), nil
		}
	}
}

// WriteTo sends the client's data to a peer. A forbidden datagram is dropped and counted,
// as a network would.
func (a *allocation) WriteTo(p []byte, addr net.Addr) (int, error) {
	u, ok := addr.(*net.UDPAddr)
	if !ok {
		return len(p), nil
	}
	to := netip.AddrPortFrom(u.AddrPort().Addr().Unmap(), u.AddrPort().Port())
	if to.Addr() == a.relay.cfg.RelayIP {
		if a.relay.neighbour(to.Port(), a.owner) == nil {
			a.relay.cfg.Meter.Dropped("own address")
			return len(p), nil
		}
		to = netip.AddrPortFrom(a.near, to.Port())
	} else if to.Port() < lowestPort || !a.relay.addresses.allows(to.Addr()) {
		a.relay.cfg.Meter.Dropped("forbidden peer")
		return len(p), nil
	}
	if !a.spend(len(p)) {
		return len(p), nil
	}
	n, err := a.conn.WriteToUDPAddrPort(p, to)
	if err != nil {
		a.relay.cfg.Meter.Dropped("send error")
	}
	return n, err
}

// spend takes n bytes off the owner's budget.
func (a *allocation) spend(n int) bool {
	if !a.relay.bytes.Take(a.owner.ID, float64(n), a.relay.cfg.Now()) {
		a.relay.cfg.Meter.Dropped("rate")
		return false
	}
	a.relay.cfg.Meter.Relayed(n)
	return true
}

// Close frees the socket and the place in the quota. The engine notices by its
// read.
func (a *allocation) Close() error {
	var err error
	a.once.Do(func() {
		err = a.conn.Close()
		a.filter.drop(a)
		r := a.relay
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.byPort[a.port] == a {
			delete(r.byPort, a.port)
		}
		delete(r.allocs, a)
		r.releaseLocked(a.owner)
	})
	return err
}

// finish notes that the engine's goroutine has seen the end.
func (r *Relay) finish(a *allocation) {
	_ = a.Close()
	r.wg.Done()
}

// LocalAddr implements net.PacketConn.
func (a *allocation) LocalAddr() net.Addr {
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.relay.cfg.RelayIP, a.port))
}

// SetDeadline implements net.PacketConn.
func (a *allocation) SetDeadline(t time.Time) error { return a.conn.SetDeadline(t) }

// SetReadDeadline implements net.PacketConn.
func (a *allocation) SetReadDeadline(t time.Time) error { return a.conn.SetReadDeadline(t) }

// SetWriteDeadline implements net.PacketConn.
func (a *allocation) SetWriteDeadline(t time.Time) error { return a.conn.SetWriteDeadline(t) }
