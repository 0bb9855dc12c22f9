// Package catalog maintains the members in Consul's catalog. Members have no Consul agent, so the
// coordinators register them, from the reports of agents and from the records in KV.
//
//	admission ── Register ──┐
//	a report  ── Note ──────┤                 Want: the entry that a member should have
//	the View  ── Run ───────┼── Writer ─────  Decide: the plan to write it, or none
//	eviction  ── Remove ────┘                 one transaction, fenced by the Boot's lease
//
// A node has the name of its Slot, the Slot's VIP and no ID. With an ID, any registration of that
// ID would make Consul rename the node and end its sessions. The node is removed together with its
// Boot, which also ends the sessions of the Boot's workload.
//
// Every coordinator writes the reports that it receives, so a change of role does not wait for a
// takeover by another coordinator. The agent's sequence orders the writes: an entry stores the Boot
// and the sequence of its report, and an older report never overwrites a newer one. Each write is a
// check-and-set on the index of the entry that it was decided by.
package catalog
