// Package scale measures the cost of a growing cluster, and its recovery times:
//
//	benchmark ── cloud (a platform that accepts any call) ◄── unix socket ──┐
//	    │                                                                   │
//	    ├── fleets: hundreds of played agents each ── Sessions ──► coordinator ×3, each in
//	    │                                                          a network of its own, as
//	    └── outside: gateway, guest agents, collateral             package coordinator runs
//	                                                               it, with its Consul server
//
// Coordinators and Consul servers are the real ones; records get there through the API and the
// reconciler. The figures are read from the coordinators' own processes, so the processes that play
// agents do not count. All of them share the machine: a slow step takes longer here than it would
// between machines.
package scale
