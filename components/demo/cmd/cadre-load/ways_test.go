package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"cadre.dev/demo/load"
)

// pooler starts a PgBouncer before the machine's database, in transaction mode.
func (m *machine) pooler() *exec.Cmd {
	m.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		m.Skip("no pgbouncer here: run make tools")
	}
	file := filepath.Join(m.dir, "pgbouncer.ini")
	settings := "[databases]\npostgres = host=" + m.dir + "\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = " + m.dir +
		"\npool_mode = transaction\nauth_type = any\nadmin_users = app\nserver_login_retry = 0.1\n"
	// With auth_type any PgBouncer logs in as the user that the database entry names.
	settings = strings.Replace(settings, "host="+m.dir, "host="+m.dir+" user=app", 1)
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		m.Fatal(err)
	}
	cmd := m.server("postgres", file)
	cmd.Path, cmd.Args[0] = program, program
	m.start(cmd)
	return cmd
}

// sendConsole sends PgBouncer's console a command, once it is there.
func (m *machine) sendConsole(command string) {
	m.Helper()
	m.within("PgBouncer takes "+command, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, "host="+m.dir+" port=6432 user=app dbname=pgbouncer default_query_exec_mode=simple_protocol")
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		_, err = conn.Exec(ctx, command)
		return err
	})
}

// within a minute, try until it works.
func (m *machine) within(what string, try func(context.Context) error) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.Fatalf("%s: %v", what, err)
		}
	}
}

// all are the figures of every way since a time, once each has n acknowledged writes.
func (m *machine) all(since time.Time, n int) map[load.Way]load.Summary {
	m.Helper()
	var said map[load.Way]load.Summary
	m.within("all ways write", func(context.Context) error {
		said = nil
		if err := m.ask(http.MethodGet, "/all/summary?from="+since.UTC().Format(time.RFC3339Nano), &said); err != nil {
			return err
		}
		for _, way := range []load.Way{load.Direct, load.Route, load.Pooled} {
			if said[way].Acknowledged < n {
				return errors.New(string(way) + " has too few")
			}
		}
		return nil
	})
	return said
}

// Three ways at once, on a real PgBouncer, with PAUSE around a restart of the database: the pooled
// way has no failure, the others have some, and each has its own journal and table. A PgBouncer
// that dies fails the open writes, and none of them is repeated silently.
func TestThreeWaysRunSideBySide(t *testing.T) {
	m := newMachine(t)
	m.flags = []string{"-route", m.dsn(), "-pooled", m.dsn() + " port=6432"}
	pooler := m.pooler()
	m.powerOn()
	began := time.Now()
	m.all(began, 30)

	paused := time.Now()
	m.sendConsole("PAUSE")
	database := m.running[1]
	if err := database.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = database.Wait()
	m.database()
	m.within("the database is back", func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, m.dsn())
		if err == nil {
			err = conn.Close(ctx)
		}
		return err
	})
	m.sendConsole("RESUME")
	m.all(time.Now(), 30)
	s := m.all(began, 0)
	if p := s[load.Pooled]; p.Failed != 0 || p.P50 <= 0 || p.P99 < p.P50 {
		t.Errorf("pooled: %+v", p)
	}
	// It waited, and was not away: of the time before, until the way began, that is not so.
	if p := m.all(paused, 0)[load.Pooled]; p.Failed != 0 || p.Slowest < p.Gap/2 {
		t.Errorf("pooled since the pause: %+v", p)
	}
	if s[load.Direct].Failed == 0 || s[load.Route].Failed == 0 {
		t.Errorf("the restart was not noticed: direct %+v, route %+v", s[load.Direct], s[load.Route])
	}
	for _, way := range []load.Way{load.Route, load.Pooled} {
		if !slices.Equal(s[way].Servers, []string{"postgres-0"}) {
			t.Errorf("%s was answered by %v, which is no Slot", way, s[way].Servers)
		}
	}

	_ = pooler.Process.Kill()
	_ = pooler.Wait()
	m.pooler()
	m.all(time.Now(), 30)
	if p := m.all(began, 0)[load.Pooled]; p.Failed == 0 {
		t.Errorf("PgBouncer was killed, and no transaction failed: %+v", p)
	}

	if err := m.ask(http.MethodPost, "/all/stop", &struct{}{}); err != nil {
		t.Fatal(err)
	}
	var verdicts map[load.Way]load.Verdict
	if err := m.ask(http.MethodPost, "/all/verify", &verdicts); err != nil {
		t.Fatal(err)
	}
	var one load.Verdict
	if err := m.ask(http.MethodPost, "/pooled/verify", &one); err != nil || one.Acknowledged != verdicts[load.Pooled].Acknowledged {
		t.Errorf("pooled alone: %+v, %v", one, err)
	}
	for way, v := range verdicts {
		if v.Missing != 0 || v.Acknowledged < 60 || v.Starts != 1 {
			t.Errorf("%s: %+v", way, v)
		}
	}
	for _, name := range []string{"journal.jsonl", "journal-route.jsonl", "journal-pooled.jsonl"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(m.journal), name)); err != nil {
			t.Error(err)
		}
	}
}

// The additional ways begin when their routes lead to a server; until then they report that, and
// the first one writes.
func TestTheFirstWayDoesNotWaitForTheOthers(t *testing.T) {
	m := newMachine(t)
	m.flags = []string{"-route", "host=" + m.dir + " port=1 user=app dbname=postgres"}
	m.powerOn()
	m.await(time.Now(), 30)
	if err := m.ask(http.MethodGet, "/route/summary", &load.Summary{}); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "has not begun") {
		t.Errorf("a way that has not begun: %v", err)
	}
	var said map[load.Way]load.Summary
	if err := m.ask(http.MethodGet, "/all/summary", &said); err != nil || len(said) != 1 || said[load.Direct].Acknowledged < 30 {
		t.Errorf("all: %+v, %v", said, err)
	}
	if err := m.ask(http.MethodPost, "/stop", &struct{}{}); err != nil {
		t.Fatal(err)
	}
}

func TestJournalsStandBesideTheFirst(t *testing.T) {
	for way, want := range map[load.Way]string{load.Direct: "/j/writes.jsonl", load.Route: "/j/writes-route.jsonl", load.Pooled: "/j/writes-pooled.jsonl"} {
		if got := journalOf("/j/writes.jsonl", way); got != want {
			t.Errorf("%s: %s, want %s", way, got, want)
		}
	}
	if got := journalOf("/j/writes", load.Route); got != "/j/writes-route" {
		t.Errorf("without an extension: %s", got)
	}
}
