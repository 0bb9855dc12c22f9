// Package envoy keeps one Envoy running for each proxy that this CVM has.
//
//	worker ── Supervisor ── keeper of a proxy ── Envoy ══ 127.0.0.1:8502, a coordinator's xDS
//	                           │                   │
//	                           └─ <RunDir>/<name>/ ┘   bootstrap.json  admin.sock  log  lock
//
// An Envoy outlives the worker that started it, as the Boot does: it inherits no
// parent-death signal, and holds the lock of its folder for as long as it lives. The next
// worker finds the lock held, asks at the admin socket who that is, and takes it over when it
// would have started the same; else it replaces it. So there are never two for one proxy.
// What Envoy writes goes into a named pipe that is in the folder, not in a worker: while
// nobody reads it the lines wait, and more than it takes are lost, but Envoy never is.
//
// Envoy holds no token and no key of ours. What it may know, the coordinator that it reaches
// over xDS gives it.
//
//	bootstrap.go   what an Envoy is started with: pure
//	plan.go        what to start, stop and take over: pure
//	judge.go       what an Envoy's answers mean, and when to ask again: pure
//	restarts.go    how long to wait before it is started again: pure
//	lines.go       what of its words goes into the log: pure but for the reader
//	folder.go      the files of one proxy
//	process.go     one process, child or not
//	admin.go       its admin socket
//	keeper.go      one proxy, from start to end
//	supervisor.go  all of them
//	metrics.go     their figures
package envoy
