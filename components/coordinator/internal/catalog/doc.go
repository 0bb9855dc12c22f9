// Package catalog writes Consul's catalog of members. They have no Consul agent, so nothing
// else registers them: coordinators do, by what agents report and by what the records say.
//
//	admission ── Register ──┐
//	a report  ── Note ──────┤                 Want: what the entry should be
//	the View  ── Run ───────┼── Writer ─────  Decide: whether, and how, it is written
//	eviction  ── Remove ────┘                 one transaction, fenced by the Boot's lease
//
// A node has the name of its Slot, its VIP and no ID: Consul renames a node to whoever
// registers its ID, and ends the sessions on it. The node goes with its Boot, and so do the
// sessions of the Boot's workload.
//
// Every coordinator writes what it hears, so that a change of role waits for nobody's
// succession. Order comes from the agent: an entry keeps the Boot and the sequence of the
// report that it was made from, an older one never overwrites it, and each write names the
// index of the entry that it was decided by.
package catalog
