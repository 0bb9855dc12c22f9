package ice

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pion/stun/v2"
)

const (
	// mappedRefresh is how often known STUN servers are asked again. It also
	// keeps the NAT's binding to them.
	mappedRefresh = 15 * time.Second
	// mappedFor is how long an answer counts: three refreshes.
	mappedFor = 3 * mappedRefresh
	// mappedTimeout bounds one question, with its repetitions.
	mappedTimeout = 3 * time.Second
	// maxServers bounds the STUN servers that are kept warm.
	maxServers = 8
)

// mapper knows how the outside sees the socket: one address per STUN server.
// An address is kept across searches, so only the first one waits for it.
type mapper struct {
	mapMu   sync.Mutex
	servers map[string]*mappedServer // by host:port
}

type mappedServer struct {
	policy policy
	mapped netip.AddrPort
	rtt    time.Duration
	at     time.Time // of the last answer; zero before the first
	used   time.Time // by a search
}

// Mapped is one server's view of the socket.
type Mapped struct {
	Server string // host:port
	Addr   netip.AddrPort
	// RTT to the server, at its last answer.
	RTT time.Duration
	// Age of that answer.
	Age time.Duration
}

// Mapped lists the latest answers of STUN servers, ordered by server. Different addresses
// show a NAT that maps each destination differently: then a path needs a Peer without
// such a NAT, or a relay.
func (m *Mux) Mapped() []Mapped {
	now := time.Now()
	m.mapMu.Lock()
	defer m.mapMu.Unlock()
	var list []Mapped
	for host, s := range m.servers {
		if !s.at.IsZero() {
			list = append(list, Mapped{Server: host, Addr: s.mapped, RTT: s.rtt, Age: now.Sub(s.at)})
		}
	}
	slices.SortFunc(list, func(a, b Mapped) int { return strings.Compare(a.Server, b.Server) })
	return list
}

// Warm asks the STUN servers among servers for the socket's mapped address and keeps
// asking in the background, so that the first search need not wait. It returns when each
// has answered or not, or ctx ends. The rules for server addresses are Config's.
func (m *Mux) Warm(ctx context.Context, servers []Server, private bool) error {
	stunHosts, _, err := parseServers(servers)
	if err != nil {
		return err
	}
	m.warm(ctx, stunHosts, policy{private: private})
	return nil
}

func (m *Mux) warm(ctx context.Context, hosts []string, pol policy) {
	var wg sync.WaitGroup
	for _, host := range hosts {
		if _, ok := m.cached(host, pol); !ok {
			wg.Go(func() { _, _ = m.ask(ctx, host, pol) })
		}
	}
	wg.Wait()
}

// cached returns the mapped address at host, if it is known and fresh, and keeps host
// among the servers that are asked in the background.
func (m *Mux) cached(host string, pol policy) (netip.AddrPort, bool) {
	now := time.Now()
	m.mapMu.Lock()
	defer m.mapMu.Unlock()
	s := m.servers[host]
	if s == nil {
		m.evict()
		s = &mappedServer{}
		m.servers[host] = s
	}
	s.used, s.policy = now, pol
	return s.mapped, !s.at.IsZero() && now.Sub(s.at) < mappedFor
}

// evict makes room for one server, with mapMu held.
func (m *Mux) evict() {
	for len(m.servers) >= maxServers {
		oldest := ""
		for host, s := range m.servers {
			if oldest == "" || s.used.Before(m.servers[oldest].used) {
				oldest = host
			}
		}
		delete(m.servers, oldest)
	}
}

// refresh asks every known server again, until the Mux ends.
func (m *Mux) refresh(every time.Duration) {
	for m.pause(every) {
		m.mapMu.Lock()
		todo := make(map[string]policy, len(m.servers))
		for host, s := range m.servers {
			todo[host] = s.policy
		}
		m.mapMu.Unlock()
		var wg sync.WaitGroup
		for host, pol := range todo {
			wg.Go(func() { _, _ = m.ask(m.life, host, pol) })
		}
		wg.Wait()
	}
}

// ask asks one STUN server, with repetitions, and records the answer.
func (m *Mux) ask(ctx context.Context, host string, pol policy) (netip.AddrPort, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, mappedTimeout, fmt.Errorf("stun server %s does not answer", host))
	defer cancel()
	server, err := resolve(ctx, host, m.family(), pol)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("find stun server: %w", err)
	}
	request, err := stun.Build(stun.TransactionID, stun.BindingRequest, stun.Fingerprint)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("ask stun server: %w", err)
	}
	q := &pendingCheck{to: server, answer: make(chan netip.AddrPort, 1)}
	m.expect(request.TransactionID, q)
	defer m.forget(request.TransactionID)

	start := time.Now()
	repeat := time.NewTimer(0)
	defer repeat.Stop()
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		select {
		case <-repeat.C:
			// A send error counts as loss: the next one may get through.
			if _, err := m.conn.WriteTo(request.Raw, net.UDPAddrFromAddrPort(server)); err != nil {
				m.log.Debug("ask stun server", "server", host, "error", err)
			}
			repeat.Reset(wait)
		case addr := <-q.answer:
			m.note(host, addr, time.Since(start))
			return addr, nil
		case <-ctx.Done():
			return netip.AddrPort{}, fmt.Errorf("ask stun server: %w", context.Cause(ctx))
		case <-m.done:
			return netip.AddrPort{}, fmt.Errorf("ask stun server: %w", net.ErrClosed)
		}
	}
}

func (m *Mux) note(host string, addr netip.AddrPort, rtt time.Duration) {
	m.mapMu.Lock()
	s := m.servers[host]
	if s == nil {
		m.mapMu.Unlock()
		return
	}
	before := s.mapped
	s.mapped, s.rtt, s.at = addr, rtt, time.Now()
	m.mapMu.Unlock()
	if before.IsValid() && before != addr {
		m.log.Info("mapped address changed", "server", host, "before", before, "now", addr)
	}
}

// family returns the families that the socket can send to: "ip4", "ip6" or "ip".
func (m *Mux) family() string {
	a := m.local.Addr()
	switch {
	case a.Is4():
		return "ip4"
	case a.IsUnspecified():
		return "ip" // a dual-stack socket
	default:
		return "ip6"
	}
}

// resolve finds a server's address. A forbidden one is refused, since server
// lists come from a rendezvous that may lie.
func resolve(ctx context.Context, host, family string, pol policy) (netip.AddrPort, error) {
	name, service, err := net.SplitHostPort(host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("address %q: %w", host, err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("port of %q: %w", host, err)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, family, name)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("resolve %q: %w", name, err)
	}
	refused := fmt.Errorf("resolve %q: no address", name)
	for _, a := range addrs {
		if refused = pol.check(a); refused == nil {
			return plain(netip.AddrPortFrom(a, uint16(port))), nil
		}
	}
	return netip.AddrPort{}, refused
}
