// Package container is the program that runs in the container of a service. It has three roles,
// each its own process:
//
//	init     waits for admission, runs the workload, passes signals on, reaps, ends
//	 │       with the workload's status
//	 ├─ the workload and its leftovers
//	 └─ server    takes commands from the agent, where the service has a folder for that
//	     └─ reaper    one for each command: ends it with its time, its caller or its server,
//	         └─ the command and all its descendants
//
// On a request of the agent, through the server, init ends the workload and starts it again, with
// the agent's last environment (workload.go); no process of the previous run is left then.
//
// Where the agent asks for it, init passes the workload's output on through pipes, keeps the last part
// in memory and gives it to the agent (output.go).
//
// Init updates the container's hosts file with the agent's names, in place and while programs read
// it (names.go). For that it can be root where workload and commands are another user's (user.go).
//
// Server and reapers are subreapers (prctl(2)): a process that leaves its parent by a double fork,
// or its session by setsid, still is a descendant of its reaper, and never mixes with the
// workload's leftovers, which init inherits. A reaper is done once it has no descendants.
package container
