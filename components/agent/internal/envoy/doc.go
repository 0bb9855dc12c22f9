// Package envoy keeps one Envoy running for each proxy that this CVM has.
//
//	worker ── Supervisor ── keeper of a proxy ── Envoy ══ 127.0.0.1:8502, a coordinator's xDS
//	                           │                   │
//	                           └─ <RunDir>/<name>/ ┘   bootstrap.json  admin.sock  log  lock
//
// An Envoy outlives the worker that started it, as the Boot does: it inherits no parent-death
// signal, and holds the lock of its folder for as long as it lives. The next worker finds the lock
// taken and asks at the admin socket which Envoy runs there. It takes that Envoy over if it would
// have started the same one; else it replaces it. So there are never two for one proxy. Envoy
// writes its log into a named pipe in the folder, independent of any worker: without a reader the
// lines wait, and lines beyond the pipe's size are lost, but Envoy continues.
//
// Envoy holds no token and no key of Cadre. A coordinator gives it all configuration over xDS.
//
//	bootstrap.go   the bootstrap of an Envoy: pure
//	plan.go        which Envoys to start, stop and take over: pure
//	judge.go       the meaning of an Envoy's answers, and when to ask again: pure
//	restarts.go    how long to wait before the next start: pure
//	lines.go       which of its log lines the agent logs: pure except for the reader
//	folder.go      the files of one proxy
//	process.go     one process, child or not
//	admin.go       its admin socket
//	keeper.go      one proxy, from start to end
//	supervisor.go  all of them
//	metrics.go     their figures
package envoy
