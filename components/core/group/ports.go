package group

import (
	"net"
	"strconv"
)

// Ports of Cadre, of its programs and of its platform inside a CVM. They are defaults where a flag
// can change them.
const (
	// AgentAPIPort is where the agent of a CVM answers; in a coordinator's CVM the coordinator does.
	AgentAPIPort       = 7070
	lastAgentPort      = 7079
	SessionPort        = 7443
	CoordinatorAPIPort = 7444
	ConsulHTTPPort     = 8500
	// ConsulXDSPort is where Envoy gets its configuration, in a CVM as at a coordinator.
	ConsulXDSPort = 8502
	// ConsulRPCPort and ConsulGossipPort are the two ports that Peers reach on the VIP:
	// coordinators use them for each other.
	ConsulRPCPort    = 8300
	ConsulGossipPort = 8301
)

// ownPort is one port, of TCP and UDP alike: the other protocol would look as if
// it belonged to the owner.
type ownPort struct {
	port  int
	owner string
	// peers may reach it through the overlay.
	peers bool
}

// ownPorts is the only list of these ports. A spec may name none of them. A Peer's stream ends only
// at a port for Peers, also when a coordinator sends another one (OVL-07, OVL-08, HK-01).
var ownPorts = []ownPort{
	{port: AgentAPIPort, owner: "the agent's interface for workloads"},
	{port: SessionPort, owner: "the overlay's Sessions"},
	{port: CoordinatorAPIPort, owner: "the coordinators' API"},
	{port: 8090, owner: "dstack's guest agent"},
	{port: ConsulRPCPort, owner: "Consul's RPC", peers: true},
	{port: ConsulGossipPort, owner: "Consul's gossip", peers: true},
	{port: 8302, owner: "Consul's gossip between data centers"},
	{port: ConsulHTTPPort, owner: "Consul's HTTP API"},
	{port: 8501, owner: "Consul's HTTPS API"},
	{port: ConsulXDSPort, owner: "Consul's gRPC API"},
	{port: 8503, owner: "Consul's gRPC API over TLS"},
	{port: 8600, owner: "Consul's DNS"},
	{port: CallerPort, owner: "the proxy that carries what members call"},
}

// PortOwner names the program of Cadre that uses port; "" if it is free for workloads.
func PortOwner(port int) string {
	for _, p := range ownPorts {
		if p.port == port {
			return p.owner
		}
	}
	switch {
	case port >= AgentAPIPort && port <= lastAgentPort:
		return "Cadre, for what comes beside the agent's interface"
	case port >= FirstProxyPort && port <= LastProxyPort:
		return "the proxies of backends"
	}
	return ""
}

// PrivatePorts returns Cadre's ports that no Peer may reach, and the ports of the listen addresses
// ("host:port") that a flag has changed.
func PrivatePorts(listen ...string) []uint16 {
	var out []uint16
	for _, address := range listen {
		_, text, _ := net.SplitHostPort(address)
		if n, err := strconv.ParseUint(text, 10, 16); err == nil && n > 0 {
			out = append(out, uint16(n))
		}
	}
	for _, p := range ownPorts {
		if !p.peers {
			out = append(out, uint16(p.port))
		}
	}
	return out
}

// ConsulPorts returns the ports of a Consul agent or server.
func ConsulPorts() []int { return []int{8300, 8301, 8302, 8500, 8501, 8502, 8503, 8600} }

// workloadPort validates a port on which a workload must listen.
func (v *validator) workloadPort(path, rule string, port int) {
	v.port(path, port)
	if owner := PortOwner(port); owner != "" {
		v.add(path, rule, "is %d, which belongs to %s in every CVM: let the workload listen on another port", port, owner)
	}
}

// ServicePort returns the port of the group's own service in the catalog: the port of the backend
// with the group's name, of the only TCP backend, or the client port of the workload's kind. 0:
// none of them has a port.
func (s Spec) ServicePort() int {
	var tcp []Backend
	for _, b := range s.Backends {
		if b.Protocol != "" && b.Protocol != "tcp" {
			continue
		}
		if b.Name == s.Name {
			return b.Port
		}
		tcp = append(tcp, b)
	}
	if len(tcp) == 1 {
		return tcp[0].Port
	}
	switch s.Workload.Kind {
	case WorkloadPatroni:
		return 5432
	case WorkloadEtcd:
		if settings, err := s.Workload.ReadSettings(); err == nil {
			return int(settings.Port("client_port"))
		}
	}
	return 0
}
