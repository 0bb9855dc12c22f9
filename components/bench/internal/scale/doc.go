// Package scale measures what a cluster costs as it grows, and how long it takes to mend:
//
//	benchmark ── cloud (a platform that says yes at once) ◄── unix socket ──┐
//	    │                                                                   │
//	    ├── fleets: hundreds of played agents each ── Sessions ──► coordinator ×3, each in
//	    │                                                          a network of its own, as
//	    └── outside: gateway, guest agents, collateral             package coordinator runs
//	                                                               it, with its Consul server
//
// Coordinators and Consul servers are the real ones; records get there through the API and
// the reconciler. What is counted is read from the coordinators' own processes, so that
// what plays the agents does not count; all of them share the machine, and what takes long
// there takes longer than it would between machines.
package scale
