// Package pooler runs one PgBouncer for one route, and pauses it while leadership moves.
//
//	app ─► VIP:port ─ PgBouncer ─► 127.11.x.y:port ─ Envoy ─► the leader
//	                    │ unix socket, of the agent alone
//	                  Pooler
//
// The VIP's clients run in this CVM, and the CVM has proved to the other side that its group may
// use the route. PgBouncer checks which program may log in as which user, as the database would: it
// reads the passwords of the route's users from the Slot's secrets, requires them from clients
// (SCRAM), and logs in to the server with them. A user without a password is trusted. The console
// listens on a unix socket in a folder that only root and PgBouncer's own user may enter; there is
// no other administrative access.
//
// The process outlives this worker like the agent's sockets do, because it holds the connections of
// applications: the next worker takes it over. A pause must end with its worker, since only that
// worker knows when to resume. The next worker therefore resumes first and then checks. A worker
// calls [ResumeAll] before any other work.
//
// This package has its own client for PgBouncer's console, some hundred lines: it needs a start, a
// query and its rows of the protocol. A driver for PostgreSQL would be the largest module of the
// measured agent.
//
//	config.go    the configuration of a Pooler
//	ini.go       PgBouncer's files: pure
//	folder.go    paths and permissions of the files
//	console.go   the client of its console
//	lines.go     which of its log lines the agent logs: pure except for the reader
//	process.go   the process: started, taken over, ended
//	pooler.go    the loop: it runs PgBouncer, and restarts it
//	pause.go     the pause and its time limit
//	leftover.go  the PgBouncers of the previous worker
package pooler
