package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/rendezvous/internal/credential"
	"cadre.dev/overlay/rendezvous/internal/limit"
	"cadre.dev/overlay/rendezvous/internal/member"
)

// Realm is the realm of every credential. It is short because it is sent to unvalidated
// addresses.
const Realm = "cadre"

// Limits bound the use by members and by unauthenticated clients.
type Limits struct {
	// Allocations is how many there may be; AllocationsPerSlot of one identity.
	Allocations, AllocationsPerSlot int
	// Bytes is the relay rate of one identity, both ways together.
	Bytes limit.Rate
	// Connections is how many TCP connections may be open; ConnectionsPerIP
	// from one source, an IPv4 address or an IPv6 /64.
	Connections, ConnectionsPerIP int
}

// Config configures a [Relay].
type Config struct {
	// Listen are host:port, each for UDP and TCP.
	Listen []string
	// RelayIP is the IPv4 address that peers reach allocations at; RelayBind is
	// where their sockets are bound, 0.0.0.0 when RelayIP is not of this machine.
	RelayIP, RelayBind netip.Addr
	// PortMin and PortMax bound the ports of allocations, inclusive; 0: any.
	PortMin, PortMax uint16
	// AllowPrivate lets allocations send into private networks. For labs.
	AllowPrivate bool
	Mint         *credential.Mint
	Limits       Limits
	Meter        Meter
	Log          *slog.Logger
	// Now may be nil. SweepEvery is how often expiry is enforced; 0: a second.
	Now        func() time.Time
	SweepEvery time.Duration
}

// Meter counts. Safe for concurrent use.
type Meter interface {
	Relayed(bytes int)
	Dropped(reason string)
	Refused(code string)
}

// Relay is a running STUN and TURN service.
type Relay struct {
	cfg       Config
	addresses addressFilter
	bytes     *limit.Keyed[identity.ID]
	nonces    *nonces
	log       *slog.Logger
	warns     limit.Line
	fronts    []*front
	wg        sync.WaitGroup // of everything that holds a socket

	mu       sync.RWMutex
	closed   bool
	draining bool
	allocs   map[*allocation]struct{}
	byPort   map[uint16]*allocation
	perSlot  map[identity.ID]int
	conns    map[net.Conn]netip.Prefix
}

// Open binds the sockets and serves.
func Open(ctx context.Context, c Config) (*Relay, error) {
	if !c.RelayIP.Is4() {
		return nil, fmt.Errorf("relay address %s: want an IPv4 address", c.RelayIP)
	}
	if c.PortMin > c.PortMax || (c.PortMin != 0 && c.PortMin < lowestPort) {
		return nil, fmt.Errorf("relay ports %d-%d: want a range from %d up", c.PortMin, c.PortMax, lowestPort)
	}
	c.Now = orNow(c.Now)
	r := &Relay{
		cfg: c, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)),
		addresses: addressFilter{allowPrivate: c.AllowPrivate},
		bytes:     limit.NewKeyed[identity.ID](c.Limits.Bytes, 1<<16),
		nonces:    newNonces(),
		allocs:    map[*allocation]struct{}{}, byPort: map[uint16]*allocation{},
		perSlot: map[identity.ID]int{}, conns: map[net.Conn]netip.Prefix{},
	}
	r.addresses.refresh()
	for _, at := range c.Listen {
		f, err := listen(ctx, at)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen for STUN and TURN: %w", err), r.Close())
		}
		r.fronts = append(r.fronts, f)
	}
	for _, f := range r.fronts {
		if err := r.serveUDP(f.udp); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.wg.Go(func() { r.serveTCP(f.tcp) })
	}
	return r, nil
}

func orNow(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

// Ports gives the ports that are listened on, in the order of Config.Listen;
// UDP and TCP have the same.
func (r *Relay) Ports() []uint16 {
	var ports []uint16
	for _, f := range r.fronts {
		ports = append(ports, uint16(f.tcp.Addr().(*net.TCPAddr).Port))
	}
	return ports
}

// Run enforces expiry until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(r.cfg.SweepEvery, time.Second))
	defer tick.Stop()
	refreshed := r.cfg.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := r.cfg.Now()
		if now.Sub(refreshed) > time.Minute {
			r.addresses.refresh()
			refreshed = now
		}
		r.Enforce(now)
	}
}

// Enforce ends the allocations of owners without a valid credential.
func (r *Relay) Enforce(now time.Time) {
	for _, a := range r.snapshot() {
		if !now.Before(a.until()) {
			r.log.Info("allocation ended", "peer", a.owner.ID.String(), "reason", "credential is not good any more")
			_ = a.Close()
		}
	}
}

// End ends the allocations of the members for which gone returns true.
func (r *Relay) End(gone func(member.Member) bool) int {
	n := 0
	for _, a := range r.snapshot() {
		if gone(a.owner) {
			_ = a.Close()
			n++
		}
	}
	return n
}

// Drain refuses new allocations. Existing allocations continue.
func (r *Relay) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

// Allocations is how many there are.
func (r *Relay) Allocations() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.allocs)
}

// Connections is how many TCP connections there are.
func (r *Relay) Connections() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.conns)
}

// Close ends everything and waits for it.
func (r *Relay) Close() error {
	r.mu.Lock()
	r.closed, r.draining = true, true
	var errs []error
	for c := range r.conns {
		errs = append(errs, c.Close())
	}
	r.mu.Unlock()
	for _, f := range r.fronts {
		errs = append(errs, f.tcp.Close(), f.udp.Close())
	}
	for _, a := range r.snapshot() {
		errs = append(errs, a.Close())
	}
	r.wg.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, net.ErrClosed) })
	return errors.Join(errs...)
}

func (r *Relay) snapshot() []*allocation {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*allocation, 0, len(r.allocs))
	for a := range r.allocs {
		all = append(all, a)
	}
	return all
}

// front is one address, for both transports.
type front struct {
	udp net.PacketConn
	tcp net.Listener
}

// listen binds TCP and UDP to the same port.
func listen(ctx context.Context, at string) (*front, error) {
	var lc net.ListenConfig
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, err
	}
	// With port 0 the port that TCP gets may be taken for UDP.
	for try := 0; ; try++ {
		tcp, err := lc.Listen(ctx, "tcp", at)
		if err != nil {
			return nil, err
		}
		_, got, err := net.SplitHostPort(tcp.Addr().String())
		if err != nil {
			return nil, errors.Join(err, tcp.Close())
		}
		udp, err := lc.ListenPacket(ctx, "udp", net.JoinHostPort(host, got))
		if err == nil {
			if c, ok := udp.(*net.UDPConn); ok {
				// The kernel may give less; bursts of many clients meet here.
				_ = c.SetReadBuffer(4 << 20)
				_ = c.SetWriteBuffer(4 << 20)
			}
			return &front{udp: udp, tcp: tcp}, nil
		}
		_ = tcp.Close()
		if port != "0" || try >= 8 {
			return nil, err
		}
	}
}
