// Package contest measures the coordinators' admission and renewal of credentials:
//
//	benchmark (agents, simulated hardware) ──► worker "coordinators" ──► Consul
//	   1,000 Slots, 200 groups                  1, or 3 for the storm     with ACLs
//
// Each is a process of its own, so that the coordinators' CPU time is told from that
// of the others. All three share the machine: what takes long there takes longer than
// it would between machines.
package contest
