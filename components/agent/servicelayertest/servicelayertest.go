// Package servicelayertest lends the agent's Consul proxy, and a Machine with the agent's whole
// service layer, to tests that cover both sides. The agent's part and the coordinators' part do not
// depend on each other, and their modules do not import each other.
package servicelayertest

import "cadre.dev/agent/internal/consulproxy"

type (
	// ConsulProxy is the Consul address of one machine's workloads.
	ConsulProxy = consulproxy.Proxy
	// Config makes a Proxy.
	Config = consulproxy.Config
	// Way is how coordinators are reached.
	Way = consulproxy.Way
	// Coordinator is a candidate for requests.
	Coordinator = consulproxy.Coordinator
)

// New makes a Proxy that answers with an error until it is opened.
func New(cfg Config) *ConsulProxy { return consulproxy.New(cfg) }
