// Package parent keeps the state that must outlive a crash of the agent: the Boot key and the
// listening sockets.
//
//	parent (pid 1 of the container)             worker (the same program)
//	  Boot key, listening sockets    socketpair   everything else
//	     │ ◄── key / new-key ───────────────────────── │
//	     │ ─── the key ──────────────────────────────► │
//	     │ ◄── run ─────────────────────────────────── │
//	     │ ─── how many workers there were before ───► │
//	     │ ◄── beat, each 5 s ──────────────────────── │
//	     │ ◄── listen tcp 127.0.10.1:5432 ──────────── │
//	     │ ─── the socket (SCM_RIGHTS) ──────────────► │
//	     │ ◄── release tcp 127.0.10.1:5432 ─────────── │
//
// When a worker dies, the parent starts it again at once. The new worker is the same Boot, since it
// gets the same key. Connections that arrive meanwhile wait in the sockets' backlogs. The
// container's end is the parent's end, and so the Boot's.
//
// A worker hangs when its beats stop for a minute after the first one. The parent sends SIGQUIT, so
// that the worker prints the stack of each goroutine, and starts another worker.
//
// The parent talks only to its worker, and parses no outside input. The worker could do all of the
// parent's work: the protocol is bounded so that a broken worker cannot take the parent down, and
// guards no permission.
package parent
