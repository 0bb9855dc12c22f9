// Package servicelayertest lends the agent's Consul proxy, and a Machine with all that an agent has for the
// service layer, to tests of what is on both sides of them: the
// agent's part of the way and the coordinators' part know nothing of each other, and the
// modules that they are in do not import each other.
package servicelayertest

import "cadre.dev/agent/internal/consulproxy"

type (
	// ConsulProxy is where the workloads of one machine find Consul.
	ConsulProxy = consulproxy.Proxy
	// Config makes a Proxy.
	Config = consulproxy.Config
	// Way is how coordinators are reached.
	Way = consulproxy.Way
	// Coordinator is one that may be asked.
	Coordinator = consulproxy.Coordinator
)

// New makes a Proxy that answers with an error until it is opened.
func New(cfg Config) *ConsulProxy { return consulproxy.New(cfg) }
