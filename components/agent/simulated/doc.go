// Package simulated runs the agent's own code of a member's life for the simulator. It takes
// configurations and orders, runs hooks, judges by the commands of checks, hands leadership over,
// keeps results on the disk, changes the workload's set and sends reports; all of this is the
// agent's code, and only its assembly is separate. The simulator gives it a driver, commands and a
// disk, and talks with coordinators by calls in the same process. It runs in a bubble of
// testing/synctest. Evidence, credentials, the overlay and the service layer are left out.
//
//	Disk ──────────────── outlives ────────────────────────────►
//	Boot   ├── Agent (process) ── crash ── Agent, Run+1 ──┤ stop
//	             │ Talk: one session with each coordinator
package simulated
