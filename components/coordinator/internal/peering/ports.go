package peering

import (
	"cmp"
	"slices"
	"strconv"

	"cadre.dev/core/group"
)

// Port is one port of one protocol ("tcp" or "udp").
type Port struct {
	Protocol string
	Number   uint16
	// Loopback: the workload listens on 127.0.0.1, not on its VIP. Only the accepting machine uses
	// it; the offers to others leave it out.
	Loopback bool
}

// Consul's ports among coordinators. Other members reach Consul through their Consul proxy.
var (
	gossip = []Port{{Protocol: "tcp", Number: group.ConsulGossipPort}, {Protocol: "udp", Number: group.ConsulGossipPort}}
	rpc    = Port{Protocol: "tcp", Number: group.ConsulRPCPort}
)

// Member is one party of the overlay.
type Member struct {
	Group, Slot string
	VIP         string
	AppID       string
	// InstanceID is the gateway's id for it, and BootID its admitted Boot.
	InstanceID, BootID string
	Coordinator        bool
}

// Peer is a Member from the view of another one.
type Peer struct {
	Member
	// Offers are the Peer's ports that self may reach; Accepts are self's ports that the Peer may
	// reach.
	Offers, Accepts []Port
}

// Rules are the inputs of the port rules, by group. A caller of a proxy must be in both: the spec
// in force removes a caller even if the group's part cannot be written, and the part applies if the
// spec cannot be read any more.
type Rules struct {
	// Specs in force.
	Specs map[string]group.Spec
	// ServiceMeshes are the groups' parts in the service layer.
	ServiceMeshes map[string]group.ServiceMesh
}

// Sees reports whether the members of two groups of workloads are each other's Peers: they are in
// one group, or one group allows the other a port or a route. Coordinators are Peers of all others.
func Sees(a, b string, rules Rules) bool {
	return a == b || rules.allows(a, b) || rules.allows(b, a)
}

func (r Rules) allows(server, client string) bool {
	return slices.Contains(r.Clients(server), client)
}

// Clients returns the groups that may reach any port of the members of a group, unsorted and with
// possible duplicates.
func (r Rules) Clients(server string) (out []string) {
	spec, known := r.Specs[server]
	if !known {
		return nil
	}
	for _, b := range spec.Backends {
		out = append(out, b.Allow...)
	}
	for _, p := range r.ServiceMeshes[server].Proxies {
		out = append(out, callers(spec, p)...)
	}
	return out
}

// callers returns the groups that may reach a proxy of a group with spec. Both must name a caller:
// the group's part in the service layer, and the backend in the spec in force.
func callers(spec group.Spec, p group.Proxy) (out []string) {
	at := slices.IndexFunc(spec.Backends, func(b group.Backend) bool { return b.Name == p.Backend })
	if p.Calls() || at < 0 {
		return nil
	}
	for _, name := range p.Callers {
		if slices.Contains(spec.Backends[at].Allow, name) {
			out = append(out, name)
		}
	}
	return out
}

// Map lists the Peers of self among members, sorted by Slot.
func Map(self Member, members []Member, rules Rules) []Peer {
	out := make([]Peer, 0, len(members))
	for _, m := range members {
		if m.Group == self.Group && m.Slot == self.Slot || !self.Coordinator && !m.Coordinator && !Sees(self.Group, m.Group, rules) {
			continue
		}
		out = append(out, Peer{Member: m, Offers: offered(Reach(self, m, rules)), Accepts: Reach(m, self, rules)})
	}
	slices.SortFunc(out, func(a, b Peer) int { return cmp.Compare(a.Slot, b.Slot) })
	return out
}

// Reach lists the ports of server that client may reach, sorted.
func Reach(client, server Member, rules Rules) []Port {
	if server.Coordinator && client.Coordinator {
		return sortPorts(append(slices.Clone(gossip), rpc))
	}
	spec, known := rules.Specs[server.Group]
	if !known || server.Coordinator || client.Coordinator {
		return nil
	}
	var ports []Port
	own := client.Group == server.Group
	driven := driverPorts(spec.Workload)
	if own {
		ports = append(ports, driven...)
	}
	for _, b := range spec.Backends {
		if own || slices.Contains(b.Allow, client.Group) {
			ports = append(ports, backendPort(b, driven))
		}
	}
	for _, p := range rules.ServiceMeshes[server.Group].Proxies {
		// The group's own members need permission too: a proxy is closed to every other group.
		if slices.Contains(callers(spec, p), client.Group) {
			ports = append(ports, Port{Protocol: "tcp", Number: uint16(p.Port)})
		}
	}
	return sortPorts(ports)
}

// backendPort returns the port of b: the declared one, or the driver's port of that number.
func backendPort(b group.Backend, driven []Port) Port {
	p := Port{Protocol: cmp.Or(b.Protocol, "tcp"), Number: uint16(b.Port)}
	for _, d := range driven {
		if d.Protocol == p.Protocol && d.Number == p.Number {
			return d
		}
	}
	p.Loopback = b.Address == group.LoopbackAddress
	return p
}

// driverPorts returns the ports that members of one workload cluster need among themselves.
func driverPorts(workload group.Workload) []Port {
	switch workload.Kind {
	case group.WorkloadPatroni:
		// Patroni's REST API has one address, and the driver uses 127.0.0.1.
		rest := Port{Protocol: "tcp", Number: 8008, Loopback: true}
		if n, err := strconv.ParseUint(workload.Settings["port"], 10, 16); err == nil && n > 0 {
			rest.Number = uint16(n)
		}
		return []Port{{Protocol: "tcp", Number: 5432}, rest}
	case group.WorkloadEtcd:
		return []Port{{Protocol: "tcp", Number: 2379}, {Protocol: "tcp", Number: 2380}}
	}
	return nil
}

// offered returns ports as others see them: each once, on the VIP.
func offered(ports []Port) []Port {
	for i := range ports {
		ports[i].Loopback = false
	}
	return slices.Compact(ports)
}

func sortPorts(ports []Port) []Port {
	slices.SortFunc(ports, func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol))
	})
	return slices.Compact(ports)
}
