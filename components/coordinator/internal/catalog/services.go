package catalog

import (
	"cmp"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// Service is a service of a member, other than the group's own. Its name is its ID.
type Service struct {
	ID      string
	Address string
	Port    int
	// Tags are the roles by which routes select the service.
	Tags []string
	// Ready and Why are the state of the service's check, as in Entry. A proxy that carries calls
	// has no check.
	Ready bool
	Why   string
	// Destination is the service behind this proxy; "": the service is no proxy. The proxy forwards
	// traffic to LocalAddress and LocalPort.
	Destination  string
	LocalAddress string
	LocalPort    int
	// Upstreams of a proxy that carries calls.
	Upstreams []Upstream
}

// Upstream is the address where a proxy listens for traffic to a route.
type Upstream struct {
	Route, Address string
	Port           int
}

// Calls reports whether the service is a proxy that carries calls.
func (s Service) Calls() bool { return len(s.Upstreams) > 0 }

func (s Service) equal(o Service) bool {
	return s.ID == o.ID && s.Address == o.Address && s.Port == o.Port && slices.Equal(s.Tags, o.Tags) && s.Ready == o.Ready && s.Why == o.Why &&
		s.Destination == o.Destination && s.LocalAddress == o.LocalAddress && s.LocalPort == o.LocalPort && slices.Equal(s.Upstreams, o.Upstreams)
}

// services returns the services of a member with the role and readiness of e.
func services(m Member, e Entry) []Service {
	var out []Service
	for _, p := range m.ServiceMesh.Proxies {
		if p.Calls() {
			if caller := caller(m, p); caller.Calls() {
				out = append(out, caller)
			}
			continue
		}
		s := Service{ID: p.Service, Address: m.VIP, Port: p.LocalPort, Why: e.Why}
		if e.Role != "" {
			s.Tags = []string{e.Role}
		}
		if p.Owner == group.OwnerWorkload {
			s.Tags, s.Why = said(m, e, p.Backend)
		}
		// Callers that reach the member through a dead proxy find no service. The other backends
		// have proxies of their own.
		if s.Why == WhyHealthy && !m.Live[p.ID] {
			s.Why = WhyProxy
		}
		s.Ready = s.Why == WhyHealthy
		proxy := s
		proxy.ID, proxy.Port = p.ID, p.Port
		proxy.Destination, proxy.LocalAddress, proxy.LocalPort = p.Service, m.VIP, p.LocalPort
		if p.Loopback {
			proxy.LocalAddress = group.LoopbackAddress
		}
		out = append(out, s, proxy)
	}
	slices.SortFunc(out, func(a, b Service) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// said returns the tags and the Why of a backend that the workload registers itself.
func said(m Member, e Entry, backend string) (tags []string, how string) {
	word, spoke := m.Backends[backend]
	switch {
	case !e.heard():
		return nil, e.Why
	case e.Why == WhyDraining:
		return word.Tags, WhyDraining
	case !spoke:
		return nil, WhyUnknown
	}
	return word.Tags, why(cmp.Or(word.Health, rollout.Unknown))
}

// caller returns the proxy for the calls that a member makes. Consul requires a port; this one is
// on loopback, out of the reach of Peers.
func caller(m Member, p group.Proxy) Service {
	out := Service{ID: p.ID, Address: group.LoopbackAddress, Port: group.CallerPort, Destination: p.Service}
	for _, r := range m.ServiceMesh.Routes {
		out.Upstreams = append(out.Upstreams, Upstream{Route: r.Name, Address: r.Behind().String(), Port: r.Port})
	}
	slices.SortFunc(out.Upstreams, func(a, b Upstream) int { return cmp.Compare(a.Route, b.Route) })
	return out
}
