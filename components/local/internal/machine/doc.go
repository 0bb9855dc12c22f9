// Package machine is the host's side of a CVM: namespace and cable, guest agent
// simulator, and the process that is pid 1 inside. Nothing outlives the daemon:
// pid 1 dies with the thread that started it, and everything else with pid 1.
package machine
