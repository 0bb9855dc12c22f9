// Package pooler runs one PgBouncer for one route, and has it pause while leadership moves.
//
//	app ─► VIP:port ─ PgBouncer ─► 127.11.x.y:port ─ Envoy ─► the leader
//	                    │ unix socket, of the agent alone
//	                  Pooler
//
// Who dials the VIP is of this CVM, and that the CVM's group may use the route was proven
// to the other side. Which of its programs may be which user is asked as the database would:
// PgBouncer knows the passwords of the route's users from the Slot's secrets, wants them from
// clients (SCRAM), and logs in to the server with them. A user without one is believed. Its
// console listens on a unix socket in a folder that only root and PgBouncer's own user may
// enter; nothing else administers it.
//
// The process outlives this worker as the agent's sockets do, since the connections of
// applications are in it: the next worker takes it over. What it must not outlive is a
// pause, of which only the worker knows the end: who takes over resumes first, and looks
// then. [ResumeAll] is for a worker to call before it does anything else.
//
// PgBouncer's console is spoken to by a client of this package, some hundred lines: of the
// protocol it needs a start, a query and its rows, and a driver for PostgreSQL would be the
// largest module of the measured agent.
//
//	config.go    what a Pooler is made of
//	ini.go       PgBouncer's files: pure
//	folder.go    where they are, and who may read them
//	console.go   the client of its console
//	lines.go     what of its words goes into the log: pure but for the reader
//	process.go   the process: started, taken over, ended
//	pooler.go    it runs, and again when it died
//	pause.go     it pauses, for a while and never longer
//	leftover.go  those of the worker before
package pooler
