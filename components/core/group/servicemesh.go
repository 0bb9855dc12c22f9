package group

import (
	"fmt"
	"net/netip"
	"strings"

	"cadre.dev/core/slotname"
)

// ServiceMesh is the part that one group has in the service layer, as the leader decided it by all
// specs in force: the record mesh/<group>. Members get it with their configuration, and
// coordinators go by it wherever they write the catalog or open a port.
type ServiceMesh struct {
	Group string `json:"group,omitempty"`
	// Proxies that each member of the group runs, sorted by ID.
	Proxies []Proxy `json:"proxies,omitempty"`
	// Routes that members of the group may dial, sorted by name.
	Routes []RouteTo `json:"routes,omitempty"`
	// Term of the leader that wrote it.
	Term uint64 `json:"term,omitempty"`
}

// Check is an error when m is no record of the group name.
func (m ServiceMesh) Check(name string) error {
	if m.Group != name {
		return fmt.Errorf("group: is %q, and the key names %q", m.Group, name)
	}
	ids, ports, routes := map[string]bool{}, map[int]bool{}, map[string]bool{}
	for _, p := range m.Proxies {
		switch {
		case p.ID != ProxyOf(p.Service) || nameless(p.Service):
			return fmt.Errorf("proxies: %q is no proxy of %q", p.ID, p.Service)
		case ids[p.ID]:
			return fmt.Errorf("proxies: %q is there twice", p.ID)
		case p.Calls() != (p.Port == 0) || !p.Calls() && (p.Port < FirstProxyPort || p.Port > LastProxyPort):
			return fmt.Errorf("proxies: %q has the port %d", p.ID, p.Port)
		case p.Port != 0 && ports[p.Port]:
			return fmt.Errorf("proxies: the port %d is given twice", p.Port)
		case !p.Calls() && (p.LocalPort < 1 || p.LocalPort > 65535):
			return fmt.Errorf("proxies: %q has the local port %d", p.ID, p.LocalPort)
		}
		ids[p.ID], ports[p.Port] = true, true
	}
	for _, r := range m.Routes {
		switch {
		case nameless(r.Name) || routes[r.Name]:
			return fmt.Errorf("routes: %q is no name, or there twice", r.Name)
		case !r.VIP.Is4() || !r.VIP.IsLoopback():
			return fmt.Errorf("routes: %q has the address %s", r.Name, r.VIP)
		case r.Port < 1 || r.Port > 65535:
			return fmt.Errorf("routes: %q has the port %d", r.Name, r.Port)
		}
		routes[r.Name] = true
	}
	return nil
}

// nameless reports a text that cannot be a service's name. The names of backends have two parts.
func nameless(s string) bool { return s == "" || len(s) > 2*slotname.MaxBytes+1 }

// Proxy is one Envoy of a member.
type Proxy struct {
	// ID is the proxy's own name in the catalog: <service>-sidecar-proxy.
	ID string `json:"id"`
	// Service is the proxy's identity: the identity of a backend, or the group's own name for the
	// proxy that carries the members' calls.
	Service string `json:"service"`
	// Backend behind the proxy; empty: the proxy carries calls.
	Backend string `json:"backend,omitempty"`
	// Owner of the backend's registration.
	Owner string `json:"owner,omitempty"`
	// TTL of the workload's own registration, for owner "workload".
	TTL Duration `json:"ttl,omitempty"`
	// Port on the member's VIP that callers' proxies dial; 0 for a proxy that carries calls. The
	// port never changes once allocated.
	Port int `json:"port,omitempty"`
	// LocalPort is where the workload listens, on 127.0.0.1 if Loopback, else on the VIP.
	LocalPort int  `json:"local_port,omitempty"`
	Loopback  bool `json:"loopback,omitempty"`
	// Callers are the groups that may connect, sorted.
	Callers []string `json:"callers,omitempty"`
}

// Calls reports whether the proxy carries the members' calls.
func (p Proxy) Calls() bool { return p.Backend == "" }

// RouteTo is a route as its callers see it.
type RouteTo struct {
	Name string `json:"name"`
	// Alias is a second name of the same address, for this caller; empty: there is none.
	Alias string `json:"alias,omitempty"`
	// Group and Backend that it leads to, with the identity of that backend.
	Group   string `json:"group"`
	Backend string `json:"backend"`
	Service string `json:"service"`
	Role    string `json:"role,omitempty"`
	// VIP and Port that applications dial.
	VIP  netip.Addr `json:"vip"`
	Port int        `json:"port"`
	// Hold bounds for how long a hand-over may hold callers back; 0: it may not.
	Hold   Duration `json:"hold,omitempty"`
	Pooler string   `json:"pooler,omitempty"`
	// PoolerUsers have secrets that this group lets the route use. Refused are users for whom
	// it does not, with the secret; the pooler does not know them.
	PoolerUsers   map[string]string `json:"pooler_users,omitempty"`
	PoolerRefused map[string]string `json:"pooler_refused,omitempty"`
}

// Moves reports whether a hand-over of the group that it leads to concerns its callers.
func (r RouteTo) Moves() bool { return r.Role != "" && r.Hold > 0 }

// Behind is the listen address of Envoy for the route. Where the agent listens on the VIP, because
// callers may be paused or pooled, Envoy takes the address with the same last two octets in
// 127.11.0.0/16; otherwise Envoy takes the VIP. Only this function decides between the two.
func (r RouteTo) Behind() netip.Addr {
	if r.Hold == 0 && r.Pooler == "" || !r.VIP.Is4() {
		return r.VIP
	}
	four := r.VIP.As4()
	return netip.AddrFrom4([4]byte{127, 11, four[2], four[3]})
}

// Ports that proxies of backends have.
const (
	FirstProxyPort = 20000
	LastProxyPort  = 20998
	// CallerPort is that of every proxy that carries calls. Consul wants each to have one; no
	// Peer is let through to it.
	CallerPort = 20999
)

const (
	// proxySuffix ends the names of proxies, and of nothing else.
	proxySuffix = "-sidecar-proxy"
	// proxyCheck begins the names of their health checks.
	proxyCheck = "proxy:"
)

// ProxyOf is the name in the catalog of the proxy of a service.
func ProxyOf(service string) string { return service + proxySuffix }

// ProxyCheck is the name of the health check that the Envoy of a proxy is, by the proxy's ID.
// No check of a spec has such a name.
func ProxyCheck(id string) string { return proxyCheck + id }

// IsProxyCheck reports whether a health check of that name is an Envoy.
func IsProxyCheck(name string) bool { return strings.HasPrefix(name, proxyCheck) }
