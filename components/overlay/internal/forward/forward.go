package forward

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

// Protocol is the transport protocol of a port.
type Protocol string

const (
	// TCP ports are carried as streams.
	TCP Protocol = "tcp"
	// UDP ports are carried as datagrams.
	UDP Protocol = "udp"
)

// Port is one port of one protocol.
type Port struct {
	Protocol Protocol
	Port     uint16
}

// Rules are the policy about one Peer. The zero Rules allow nothing.
type Rules struct {
	// VIP is the Peer's address on this machine's loopback.
	VIP netip.Addr
	// Offers are the Peer's ports to listen for on VIP.
	Offers []Port
	// Accepts are this machine's ports that the Peer may reach.
	Accepts []Port
	// DemandTime is the time that data of apps waits for a Session that is made on demand. With
	// 0 a Session is kept: then TCP waits for a second and UDP does not.
	DemandTime time.Duration
	// Loopback are those TCP ports of Accepts that are dialled on 127.0.0.1, since
	// their workload listens there; all others on the machine's VIP.
	Loopback []Port
}

const (
	// holdLimit is how long an app's connection waits for a Session.
	holdLimit = time.Second
	// replyLimit is how long the receiver may take to answer a stream.
	replyLimit = 10 * time.Second
	// dialLimit is how long the receiver tries to reach the workload.
	dialLimit = 5 * time.Second
	// rebindWait is how long to wait before trying again to listen.
	rebindWait = time.Second
	// logEvery is the least time between two log lines about refusals.
	logEvery = time.Second
	// maxConns bounds the connections of one Peer in each direction (OVL-17).
	maxConns = 1024
)

// Config is the same for all Peers of a node.
type Config struct {
	// SelfVIP is where this machine's workloads listen.
	SelfVIP netip.Addr
	Log     *slog.Logger
	// Listener opens the local sockets that lead to the Peer; see [Listener].
	Listener Listener
	// Unused, if it is not nil, is called when a Session has just lost its last
	// connection.
	Unused func(carrier.Session)
	// Wanted, if it is not nil, is called when a connection or datagram waits for a
	// Session.
	Wanted func()
}

// Listener opens the sockets of offered ports. TCP sockets must accept as *net.TCPConn,
// UDP sockets must be *net.UDPConn.
type Listener interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
}

// Peer forwards to and from one Peer. Make it with [NewPeer]; all methods may
// be called concurrently.
type Peer struct {
	cfg     Config
	log     *slog.Logger
	udp     *udp
	begin   time.Time
	used    atomic.Int64 // when something was carried last, since begin
	closing chan struct{}
	waiting atomic.Int64 // apps' connections without a Session
	wg      sync.WaitGroup

	mu        sync.Mutex
	rules     Rules
	session   carrier.Session      // nil while there is none
	last      carrier.Session      // in use now, or before
	changed   chan struct{}        // closed and renewed when session changes
	listeners map[uint16]*listener // by offered TCP port
	pipes     map[*pipe]struct{}   // every open connection
	open      [2]int               // number of pipes by direction
	carried   map[carrier.Session]int
	counters  map[counterKey]*count // never shrinks: bounded by the rules seen
	refused   map[Protocol]uint64
	logged    time.Time // when a refusal was logged last
	closed    bool
}

// NewPeer listens for r.Offers at once. Stop it when the Peer leaves the map.
// log names the Peer already.
func NewPeer(cfg Config, r Rules) *Peer {
	p := &Peer{
		cfg: cfg, log: cfg.Log,
		begin:     time.Now(),
		closing:   make(chan struct{}),
		changed:   make(chan struct{}),
		listeners: make(map[uint16]*listener),
		pipes:     make(map[*pipe]struct{}),
		carried:   make(map[carrier.Session]int),
		counters:  make(map[counterKey]*count),
		refused:   make(map[Protocol]uint64),
	}
	p.udp = newUDP(p)
	p.Update(r)
	return p
}

// Update replaces the rules. Listeners and connections that they no longer
// allow end at once.
func (p *Peer) Update(r Rules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	moved := r.VIP != p.rules.VIP
	p.rules = r
	for port, l := range p.listeners {
		if moved || !slices.Contains(r.Offers, Port{TCP, port}) {
			l.close()
			delete(p.listeners, port)
		}
	}
	for pipe := range p.pipes {
		allowed := r.Accepts
		if pipe.dir == outbound {
			allowed = r.Offers
		}
		if moved || !slices.Contains(allowed, Port{TCP, pipe.port}) {
			p.wg.Go(pipe.abort)
		}
	}
	var datagrams []uint16
	for _, o := range r.Offers {
		switch o.Protocol {
		case TCP:
			if p.listeners[o.Port] == nil {
				l := newListener(netip.AddrPortFrom(r.VIP, o.Port))
				p.listeners[o.Port] = l
				p.wg.Go(func() { p.listen(l) })
			}
		case UDP:
			datagrams = append(datagrams, o.Port)
		}
	}
	p.udp.update(r.VIP, datagrams, moved)
}

// Use makes s carry new connections and datagrams; nil means that there is no Session.
// Connections on an earlier Session stay there and end with it at the latest.
func (p *Peer) Use(s carrier.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.useLocked(s)
}

func (p *Peer) useLocked(s carrier.Session) {
	p.session = s
	close(p.changed)
	p.changed = make(chan struct{})
	if s == nil {
		return
	}
	if s != p.last { // a Session that is used again after a refused rest is as idle as before
		p.last = s
		p.touch()
	}
	p.udp.flush(s)
}

// Idle is how long nothing has been carried; 0 while a connection is open or waits.
func (p *Peer) Idle() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idleLocked()
}

func (p *Peer) idleLocked() time.Duration {
	if len(p.carried) > 0 || p.waiting.Load() > 0 {
		return 0
	}
	return time.Since(p.begin) - time.Duration(p.used.Load())
}

// Rest takes the Session out of use, as Use(nil) does, if it has carried nothing for at least
// that long. Then no stream of a local app lives on any Session, and none begins before the
// next Use.
func (p *Peer) Rest(idle time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idleLocked() < idle {
		return false
	}
	p.useLocked(nil)
	return true
}

// touch notes that something is carried.
func (p *Peer) touch() { p.used.Store(int64(time.Since(p.begin))) }

// want asks for a Session.
func (p *Peer) want() {
	if p.cfg.Wanted != nil {
		p.cfg.Wanted()
	}
}

// Abandon resets the connections of apps on s that the far side has not answered yet.
func (p *Peer) Abandon(s carrier.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pipe := range p.pipes {
		if pipe.on == s && pipe.dir == outbound && !pipe.answered.Load() && !p.closed {
			p.wg.Go(pipe.abort)
		}
	}
}

// current gives the Session in use, and a channel that closes when it changes.
func (p *Peer) current() (carrier.Session, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session, p.changed
}

// Stop frees every address and begins to reset every connection.
func (p *Peer) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	close(p.closing)
	for _, l := range p.listeners {
		l.close()
	}
	for pipe := range p.pipes {
		p.wg.Go(pipe.abort)
	}
	p.udp.close()
}

// Wait returns when a stopped Peer holds no goroutine any more.
func (p *Peer) Wait() { p.wg.Wait() }

// accepts reports whether the Peer may reach a port here, and counts a refusal.
func (p *Peer) accepts(port Port) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.allowsLocked(port) {
		return true
	}
	p.refused[port.Protocol]++
	return false
}

func (p *Peer) allowsLocked(port Port) bool {
	return slices.Contains(p.rules.Accepts, port) && !p.closed
}

// mayLog spaces the log lines about refusals: a Peer that scans must not fill the log. The
// counters count all of them.
func (p *Peer) mayLog() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.logged) < logEvery {
		return false
	}
	p.logged = now
	return true
}

// spawn runs f as part of the Peer, unless it is closed.
func (p *Peer) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.wg.Go(f)
	return true
}
