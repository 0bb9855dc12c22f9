// Package contest measures the coordinators' admission and renewal of credentials:
//
//	benchmark (agents, simulated hardware) ──► worker "coordinators" ──► Consul
//	   1,000 Slots, 200 groups                  1, or 3 for the storm     with ACLs
//
// Each is a separate process, so that the coordinators' CPU time is measured apart from the
// others'. All three share the machine: a slow step takes longer here than it would between
// machines.
package contest
