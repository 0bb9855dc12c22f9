// Package container is what runs in the container of a service. One program has three
// roles, each its own process:
//
//	init     waits for admission, runs the workload, passes signals on, reaps, ends
//	 │       with the workload's status
//	 ├─ the workload and what it leaves behind
//	 └─ server    takes commands from the agent, where the service has a folder for that
//	     └─ reaper    one for each command: ends it with its time, its caller or its server,
//	         └─ the command and all that came of it
//
// Asked by the agent, through the server, init ends the workload and starts it anew, with the
// environment that the agent wrote last (workload.go); nothing of the one before is left then.
//
// Init keeps the container's hosts file as the agent's names are, in place and while it is read
// (names.go). For that it can be root where workload and commands are another user's (user.go).
//
// Server and reapers are subreapers (prctl(2)): what leaves its parent by a double
// fork, and what leaves its session by setsid, still is a descendant of its reaper, and
// never mixes with what the workload leaves behind, which init inherits. A reaper is
// done once it has no descendants.
package container
