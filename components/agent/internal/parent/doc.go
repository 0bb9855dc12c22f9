// Package parent keeps what must outlive a crash of the agent: the Boot key and the
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
// A worker that dies is started again at once and is the same Boot, since it gets the same
// key. Connections that come meanwhile wait in the sockets' backlogs. The container's end is
// the parent's end, and so the Boot's.
//
// A worker that said it gets on, and says nothing for a minute, hangs: it prints where each of
// its goroutines is (SIGQUIT), and another one takes its place.
//
// The parent talks to nobody but its worker, and parses nothing that comes from outside.
// The worker could do all that the parent does for it: the protocol is bounded so that a
// worker gone wrong cannot take the parent along, and guards no right.
package parent
