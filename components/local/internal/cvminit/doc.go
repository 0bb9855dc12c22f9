// Package cvminit is pid 1 of a CVM: it understands the compose file, runs each
// service in its sandbox, restarts and health-checks it, answers the daemon and
// reaps orphans. When it ends, the kernel ends everything in the CVM.
//
//	Run ── prepare mounts ── compose.Load ── supervisor
//	                                           ├─ unit web: wait for dependencies → start → wait → restart?
//	                                           ├─ unit db ...
//	                                           └─ control loop: stop, exec, hold, list
package cvminit
