package webdemo_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"cadre.dev/demo/webdemo"
)

// balanced is a route with members behind it, which take connections in turn; without members
// connections are refused.
type balanced struct {
	mu      sync.Mutex
	members []http.Handler
	next    int
}

func (b *balanced) ServeHTTP(out http.ResponseWriter, req *http.Request) {
	b.mu.Lock()
	member := b.members[b.next%len(b.members)]
	b.next++
	b.mu.Unlock()
	member.ServeHTTP(out, req)
}

// route serves the handlers behind it, and returns its address.
func route(t *testing.T, behind ...http.Handler) string {
	t.Helper()
	server := httptest.NewServer(&balanced{members: behind})
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// slot answers as a member of a group.
func slot(name, release string) http.Handler {
	return webdemo.Web{Self: webdemo.Hello{Group: strings.TrimRight(name, "-0123456789"), Slot: name, Release: release}}.Handler()
}

// broken is a member that fails.
func broken(status int) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(status) })
}

// refusing is an address where connections are refused.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	return l.Addr().String()
}

// server is a database behind a route, as far as webdemo talks to one.
type server struct {
	slot    string
	standby bool
	// late is how many looks a row takes to arrive.
	late int
	// refuses the statement that begins so, with an SQLSTATE.
	refuses, state string

	mu         sync.Mutex
	looks      int
	statements []string
}

// serve gives the address of the database.
func (s *server) serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var sessions sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		sessions.Wait()
	})
	sessions.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() {
				defer func() { _ = conn.Close() }()
				s.session(conn)
			})
		}
	})
	return listener.Addr().String()
}

// session serves the protocol until the client leaves.
func (s *server) session(conn net.Conn) {
	backend := pgproto3.NewBackend(conn, conn)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	var sql string
	for backend.Flush() == nil {
		message, err := backend.Receive()
		if err != nil {
			return
		}
		switch m := message.(type) {
		case *pgproto3.Parse:
			sql = m.Query
			backend.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Bind:
			backend.Send(&pgproto3.BindComplete{})
		case *pgproto3.Execute:
			s.run(backend, sql)
		case *pgproto3.Query:
			s.run(backend, m.String)
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Sync:
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Terminate:
			return
		}
	}
}

func (s *server) run(backend *pgproto3.Backend, sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb, _, _ := strings.Cut(sql, " ")
	s.statements = append(s.statements, verb)
	if s.refuses == verb {
		backend.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: s.state, Message: "refused"})
		return
	}
	switch verb {
	case "INSERT":
		send(backend, []uint32{int8OID, textOID, timeOID}, "17", "webdemo-0", "2026-01-01 00:00:00+00")
	case "SELECT":
		s.looks++
		send(backend, []uint32{textOID, textOID, boolOID, boolOID, int8OID}, s.slot, "127.0.0.1:5432", truth(s.standby), truth(s.looks > s.late), "42")
	}
	backend.Send(&pgproto3.CommandComplete{CommandTag: []byte(verb + " 0 1")})
}

const (
	boolOID = 16
	int8OID = 20
	textOID = 25
	timeOID = 1184
)

func truth(is bool) string { return map[bool]string{true: "t", false: "f"}[is] }

// send one row as text.
func send(backend *pgproto3.Backend, types []uint32, values ...string) {
	fields, cells := make([]pgproto3.FieldDescription, len(values)), make([][]byte, len(values))
	for i, v := range values {
		fields[i] = pgproto3.FieldDescription{Name: []byte("c"), DataTypeOID: types[i], DataTypeSize: -1, TypeModifier: -1}
		cells[i] = []byte(v)
	}
	backend.Send(&pgproto3.RowDescription{Fields: fields})
	backend.Send(&pgproto3.DataRow{Values: cells})
}

// unknown is a resolver that knows no name.
func unknown(_ context.Context, host string) ([]string, error) {
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// ask queries a handler and returns any answer.
func ask(t *testing.T, handler http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return answer
}
