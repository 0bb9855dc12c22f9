// Package control serves the control sessions of admitted agents: it hands out
// desired state and peer maps, takes reports, and wakes agents up when something
// changed for them.
//
//	agent ── GetDesired, GetPeers, Report ──► Service ──► view, reports
//	agent ◄── Wake ── Service ◄── view changed (on the leader)
//
// Any coordinator answers from the records; nothing here decides.
package control
