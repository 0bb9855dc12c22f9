// Package coordinator is the service that runs a Cadre cluster's control plane:
// it supervises its Consul server, admits Boots, answers agents and operators,
// and, while it holds the Lease, carries rollouts out.
//
//	platform list ──► peering ──► overlay ◄── agents, other coordinators
//	                                 │ admission · control sessions
//	consul ◄── supervise             ▼
//	   ▲            view ──► directory, reports ──► observe ──► reconcile ──► operate ──► platform
//	   └── store ◄──────────────────────────────────────────────── under the Lease
//
// New checks a Config, Run blocks until its context ends.
package coordinator
