package pooler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// maxClients must hold the queue of a whole pause.
	maxClients = 2000
	// poolSize is how many servers each user of each database has.
	poolSize = 20
)

// settings are the same for every route. A default of PgBouncer is listed only if the choice
// matters.
const settings = `
; A transaction is the least that may be paused between: with sessions, one idle client would
; keep PAUSE waiting. What a session keeps (SET, LISTEN, prepared statements) does not work.
pool_mode = transaction

max_client_conn = 2000
; For each user of each database. PostgreSQL takes 100 connections as a rule, and every
; consumer has a pooler.
default_pool_size = 20
; Clients that all come at once after a restart are not to be dropped from the queue: the
; kernel would try them again after a whole second.
listen_backlog = 2048

; How long a server that cannot be logged in to is left alone. The default, 15 s, would be
; added to every fail-over, and until the next try each new query gets an error.
server_login_retry = 0.2
; Envoy accepts at once, whether or not there is a leader, so that a login that hangs is one
; that goes nowhere. The default is 15 s.
server_connect_timeout = 2
; The longest that a query waits for a server: above the longest fail-over of a database
; whose leader died (Patroni's ttl, 30 s, and a promotion), below the default of 120 s.
query_wait_timeout = 60

; A connection that was idle for so long is tried before somebody gets it: its leader may
; have gone without a word. The default is 30 s; with 0 every transaction would pay for it.
server_check_query = select 1
server_check_delay = 5
; Servers are on loopback for this process: what is dead behind Envoy closes there, or not at
; all for TCP's clocks. Keepalive is for clients, and the system's is enough.
tcp_keepalive = 1

; JDBC sends it always, and it changes nothing since PostgreSQL 12. Everything else that a
; driver sends because its user asked (options, search_path, statement_timeout) is refused by
; name: to drop it silently would run queries that mean something else.
ignore_startup_parameters = extra_float_digits

; Envoy encrypts what leaves the CVM.
server_tls_sslmode = disable
client_tls_sslmode = disable

; Steady state is silent; errors that clients get are told.
log_connections = 0
log_disconnections = 0
log_stats = 0
log_pooler_errors = 1
`

// ini is PgBouncer's configuration for one route.
func (c Config) ini() []byte {
	f := c.folder()
	var b strings.Builder
	b.WriteString("; Written by the agent.\n[databases]\n")
	fmt.Fprintf(&b, "* = host=%s port=%d\n\n[pgbouncer]\n", c.Target.Addr(), c.Target.Port())
	fmt.Fprintf(&b, "listen_addr = %s\nlisten_port = %d\n", c.Address.Addr(), c.Address.Port())
	fmt.Fprintf(&b, "unix_socket_dir = %s\nunix_socket_mode = 0700\npidfile = %s\n", f.run(), f.pid())
	fmt.Fprintf(&b, "auth_type = hba\nauth_hba_file = %s\nauth_file = %s\nadmin_users = %s\n", f.path(hbaFile), f.path(usersFile), admin)
	b.WriteString(settings)
	return []byte(b.String())
}

// hba lists the allowed logins. users maps each name to the file of its password. Over TCP a user
// with a password must give it, even while the file is missing. A user without a password is
// trusted, as in the database. The socket is for the agent: for the console, and to log in once for
// a pool, whose password the agent has anyway. A login without a line is refused.
func hba(users map[string]string) []byte {
	var b strings.Builder
	b.WriteString("local " + console + " " + admin + " trust\n" +
		"local " + console + " all reject\n" +
		"local all " + admin + " reject\n" +
		"local all all trust\n" +
		"host " + console + " all 0.0.0.0/0 reject\n" +
		"host all " + admin + " 0.0.0.0/0 reject\n")
	for _, name := range slices.Sorted(maps.Keys(users)) {
		method := "trust"
		if users[name] != "" {
			method = "scram-sha-256"
		}
		// Quoted, a user called "all" is one user.
		fmt.Fprintf(&b, "host all %s 127.0.0.0/8 %s\n", quoted(name), method)
	}
	return []byte(b.String())
}

// user is one line of the users' file.
type user struct{ name, password string }

// userList is the file of users. It must list the agent's user, too.
func userList(users []user) []byte {
	var b strings.Builder
	for _, u := range append([]user{{name: admin}}, users...) {
		fmt.Fprintf(&b, "%s %s\n", quoted(u.name), quoted(u.password))
	}
	return []byte(b.String())
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
