package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"cadre.dev/demo/load"
)

// The test binary is also cadre-load.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "load" {
		if err := run(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "cadre-load:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// machine is a PostgreSQL and a load that writes to it, as processes.
type machine struct {
	*testing.T
	bin, dir, journal, listen string
	postgres                  *syscall.Credential
	running                   []*exec.Cmd
	// flags are more ones of the load.
	flags []string
	log   *os.File
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		t.Skip("no PostgreSQL server below /usr/lib/postgresql: run make tools")
	}
	if os.Geteuid() != 0 {
		t.Skip("a server that is another user's, in a PID namespace of its own, needs root")
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		t.Skip("the user postgres, which comes with PostgreSQL, is missing")
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	dir, err := os.MkdirTemp("", "cadre-load-") //nolint:usetesting // the server's user may not enter the parent of a test's folder
	if err = errors.Join(err, uidErr, gidErr); err == nil {
		err = os.Chown(dir, int(uid), int(gid))
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{T: t, bin: found[len(found)-1], dir: dir, journal: filepath.Join(t.TempDir(), "journal.jsonl"),
		postgres: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if m.log, err = os.Create(filepath.Join(t.TempDir(), "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.cutPower()
		_ = os.RemoveAll(dir)
		said, err := os.ReadFile(m.log.Name())
		if t.Failed() {
			t.Logf("what the processes printed: %v\n%s", err, said)
		}
		_ = m.log.Close()
	})
	initdb := m.server("initdb", "--pgdata", filepath.Join(dir, "data"), "--username", "app", "--auth", "trust", "--encoding", "UTF8", "--locale", "C")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	return m
}

// server is one of PostgreSQL's programs as its user.
func (m *machine) server(program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(m.Context(), filepath.Join(m.bin, program), args...)
	cmd.Dir = m.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: m.postgres, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (m *machine) dsn() string { return "host=" + m.dir + " user=app dbname=postgres" }

// powerOn starts database and load.
func (m *machine) powerOn() {
	m.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.Fatal(err)
	}
	m.listen = l.Addr().String()
	_ = l.Close()
	m.database()
	self, err := os.Executable()
	if err != nil {
		m.Fatal(err)
	}
	writer := exec.CommandContext(m.Context(), self, append([]string{"load", "-dsn", m.dsn(), "-journal", m.journal, "-listen", m.listen, "-interval", "5ms"}, m.flags...)...)
	writer.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	m.start(writer)
}

// database starts PostgreSQL.
func (m *machine) database() *exec.Cmd {
	m.Helper()
	database := m.server("postgres", "-D", filepath.Join(m.dir, "data"), "-c", "listen_addresses=", "-c", "unix_socket_directories="+m.dir, "-c", "cadre.slot=postgres-0")
	// The whole server ends with its first process, as all does with the power.
	database.SysProcAttr.Cloneflags = unix.CLONE_NEWPID
	m.start(database)
	return database
}

func (m *machine) start(cmd *exec.Cmd) {
	m.Helper()
	cmd.Stdout, cmd.Stderr = m.log, m.log
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	m.running = append(m.running, cmd)
}

// cutPower ends every process without a word.
func (m *machine) cutPower() {
	for _, cmd := range m.running {
		_ = cmd.Process.Kill()
	}
	for _, cmd := range m.running {
		_ = cmd.Wait()
	}
	m.running = nil
}

// ask the load.
func (m *machine) ask(method, path string, into any) error {
	req, err := http.NewRequestWithContext(m.Context(), method, "http://"+m.listen+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("%s: %s", resp.Status, body))
	}
	return json.Unmarshal(body, into)
}

// await waits until n writes are acknowledged since a time.
func (m *machine) await(since time.Time, n int) load.Summary {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var s load.Summary
		err := m.ask(http.MethodGet, "/summary?from="+since.UTC().Format(time.RFC3339Nano), &s)
		if err == nil && s.Acknowledged >= n {
			return s
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.Fatalf("not %d writes: %+v, %v", n, s, err)
		}
	}
}

func (m *machine) verdict() load.Verdict {
	m.Helper()
	var v load.Verdict
	if err := m.ask(http.MethodPost, "/verify", &v); err != nil {
		m.Fatal(err)
	}
	return v
}

// Database and load lose their power twice. The load continues with unused ids, and its verdict
// covers all writes since the beginning.
func TestTheJournalSurvivesPowerCuts(t *testing.T) {
	m := newMachine(t)
	m.powerOn()
	began := time.Now()
	before := m.await(began, 60)
	m.cutPower()
	m.powerOn()
	m.await(time.Now(), 60)
	m.cutPower()
	m.powerOn()
	m.await(time.Now(), 60)

	if err := m.ask(http.MethodPost, "/stop", &struct{}{}); err != nil {
		t.Fatal(err)
	}
	v := m.verdict()
	if v.Missing != 0 || v.Starts != 3 || v.Earlier.Missing != 0 || v.Earlier.Acknowledged < before.Acknowledged+60 || v.Acknowledged < v.Earlier.Acknowledged+60 {
		t.Errorf("verdict = %+v, want all of three starts, none missing", v)
	}
	s := m.await(began, 180)
	if n := s.Errors["SQLSTATE 23505"]; n > 0 || s.Acknowledged != v.Acknowledged {
		t.Errorf("the load met %d rows of its own; summary %+v", n, s)
	}

	// The verdict "nothing is missing" counts only if the check detects a missing write.
	conn, err := pgx.Connect(t.Context(), m.dsn())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), `DELETE FROM writes WHERE id = 7`); err != nil {
		t.Fatal(err)
	}
	if v := m.verdict(); v.Missing != 1 || v.Earlier.Missing != 1 || len(v.MissingIDs) != 1 || v.MissingIDs[0] != "7" {
		t.Errorf("verdict without row 7 = %+v", v)
	}
}
