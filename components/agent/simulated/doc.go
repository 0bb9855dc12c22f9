// Package simulated has the agent's own life of a member for the simulator: what takes
// configurations and orders, runs hooks, judges by the commands of checks, hands leadership over, keeps
// results on the disk, changes the workload's set and reports is what agents run; only which of these
// parts there are is written anew. It stands on a driver, commands and a disk that it is given, and
// talks with coordinators by calls in the same process. It is meant to run in a bubble of
// testing/synctest. Evidence, credentials, the overlay and the service layer are not in it.
//
//	Disk ──────────────── outlives ────────────────────────────►
//	Boot   ├── Agent (process) ── crash ── Agent, Run+1 ──┤ stop
//	             │ Talk: one session with each coordinator
package simulated
