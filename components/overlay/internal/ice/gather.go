package ice

import (
	"context"
	"net"
	"net/netip"
	"sync"

	pion "github.com/pion/ice/v3"
)

// maxHosts bounds the addresses of this machine that are offered, so that
// mapped and relayed ones find room too.
const maxHosts = 8

// hosts lists the addresses at which the socket can be reached without a NAT
// and that may be offered.
func (m *Mux) hosts(pol policy) []netip.AddrPort {
	if !m.local.Addr().IsUnspecified() {
		if pol.check(m.local.Addr()) != nil {
			return nil
		}
		return []netip.AddrPort{m.local}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		m.log.Warn("list addresses", "error", err)
		return nil
	}
	var list []netip.AddrPort
	for _, a := range addrs {
		ipnet, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(ipnet.IP)
		if !ok {
			continue
		}
		ip = ip.Unmap()
		if m.local.Addr().Is4() && !ip.Is4() || pol.check(ip) != nil {
			continue
		}
		if list = append(list, netip.AddrPortFrom(ip, m.local.Port())); len(list) == maxHosts {
			break
		}
	}
	return list
}

// bases names the socket to an agent, once for each family it sends in. More
// would only multiply the pairs: the kernel chooses the source address anyway.
func (m *Mux) bases(pol policy) []netip.AddrPort {
	if !m.local.Addr().IsUnspecified() {
		return []netip.AddrPort{m.local}
	}
	v4 := netip.AddrPortFrom(netip.IPv4Unspecified(), m.local.Port())
	v6 := netip.AddrPortFrom(netip.IPv6Unspecified(), m.local.Port())
	for _, host := range m.hosts(pol) {
		if base := &v6; host.Addr().Is4() {
			base = &v4
			if base.Addr().IsUnspecified() {
				*base = host
			}
		} else if base.Addr().IsUnspecified() {
			*base = host
		}
	}
	if m.local.Addr().Is4() {
		return []netip.AddrPort{v4}
	}
	return []netip.AddrPort{v4, v6}
}

// localFor returns the socket's source address for packets to remote.
func (m *Mux) localFor(remote netip.AddrPort) netip.AddrPort {
	if !m.local.Addr().IsUnspecified() {
		return m.local
	}
	// Connecting a UDP socket asks the routing table and sends nothing.
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(remote))
	if err != nil {
		return m.local
	}
	defer c.Close() //nolint:errcheck // nothing was written
	udp, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return m.local
	}
	return netip.AddrPortFrom(plain(udp.AddrPort()).Addr(), m.local.Port())
}

// gather offers host and mapped addresses. It offers the known addresses before it
// returns; the rest follows until ctx ends.
func (a *Search) gather(ctx context.Context, stunHosts []string) {
	mux := a.conf.Mux
	for _, host := range mux.hosts(a.policy) {
		a.offer(typeHost, host)
	}
	var unknown []string
	for _, server := range stunHosts {
		if addr, ok := mux.cached(server, a.policy); ok {
			a.offer(typeSrflx, addr)
		} else {
			unknown = append(unknown, server)
		}
	}
	if len(unknown) == 0 {
		a.gathered()
		return
	}
	a.wg.Go(func() {
		defer a.gathered()
		var wg sync.WaitGroup
		for _, server := range unknown {
			wg.Go(func() {
				addr, err := mux.ask(ctx, server, a.policy)
				if err != nil {
					a.log.Debug("no mapped address", "server", server, "error", err)
					return
				}
				a.offer(typeSrflx, addr)
			})
		}
		wg.Wait()
	})
}

// relayGathered takes the relay agent's candidates; nil ends them.
func (a *Search) relayGathered(c pion.Candidate) {
	if c == nil {
		a.gathered()
		return
	}
	if c.Type() == pion.CandidateTypeRelay {
		a.offer(typeRelay, candidateAddr(c))
	}
}

// offer signals one candidate, unless it is known, forbidden or one too many: this side
// never sends the Peer a candidate that it would refuse itself (OVL-10).
func (a *Search) offer(kind string, addr netip.AddrPort) {
	if err := a.policy.check(addr.Addr()); err != nil {
		a.log.Debug("candidate withheld", "error", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, again := a.offered[addr]; again || a.gatherers == 0 || len(a.offered) >= MaxCandidates {
		return
	}
	nth := 0
	for _, k := range a.offered {
		if k == kind {
			nth++
		}
	}
	a.offered[addr] = kind
	a.candidates <- local(kind, nth, addr).format() // has room for MaxCandidates
}

// gathered counts one gatherer as finished.
func (a *Search) gathered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gatherers > 0 {
		if a.gatherers--; a.gatherers == 0 {
			close(a.candidates)
		}
	}
}
