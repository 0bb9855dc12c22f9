package command_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/agent/internal/command"
	"cadre.dev/agent/internal/health"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/exec/call"
)

const compose = `services:
  cadre:
    image: agent
    volumes: [exec-db:/run/cadre-exec/db]
  db:
    image: db
    command: [/run/mesh/exec, --, postgres]
    volumes: [exec-db:/run/cadre-exec]
    x-cadre:
      exec:
        look: [cat, /run/mesh/secrets/superuser]
volumes:
  exec-db:
    driver_opts: { type: tmpfs, device: tmpfs }
`

var look = group.ExecAction{Service: "db", Command: "look"}

// logBuffer takes log lines of several goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder // guarded by mu
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newRunner(t *testing.T, level slog.Level, answer func(call.Request) call.Reply) (*command.Runner, *logBuffer, *slog.Logger) {
	t.Helper()
	dir, out := t.TempDir(), &logBuffer{}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
	r := command.New(dir, log)
	r.Declare(compose)
	if answer != nil {
		agenttest.ServeCommands(t, filepath.Join(dir, "db"), answer)
	}
	return r, out, log
}

// TestHK04_HK07_HK08_OutputIsNeverReported: a secret in a check's output appears in no log, no
// error of a hook and no reason of a check. The check's own reason appears as one printable line.
func TestHK04_HK07_HK08_OutputIsNeverReported(t *testing.T) {
	const secret = "s3cret-v4lue"
	r, out, log := newRunner(t, slog.LevelInfo, func(call.Request) call.Reply {
		return call.Reply{End: call.Exited, Code: 1, Output: []byte(secret), Reason: "no\x1b[31m leader\n" + secret}
	})
	err := r.RunUntil(t.Context(), look, []string{"CADRE_HOOK=h"}, time.Minute)
	want := `command db/look ended with code 1: no\x1b[31m leader`
	if err == nil || err.Error() != want {
		t.Errorf("hook: %v, want %s", err, want)
	}
	c := health.NewChecker(r, nil, log)
	c.SetChecks([]group.HealthCheck{{Name: "look", Exec: &look, CheckIntervalSec: 1, UnhealthyThreshold: 1}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	agenttest.Eventually(t, 20*time.Second, "a judgement", func() bool {
		list := c.Results()
		return len(list) == 1 && list[0].Health == rollout.Unhealthy
	})
	cancel()
	<-done
	if got := c.Results()[0].Message; got != want {
		t.Errorf("reason of the check %q, want %q", got, want)
	}
	if text := out.String(); strings.Contains(text, secret) || !strings.Contains(text, "health check changed") {
		t.Errorf("log:\n%s", text)
	}
}

// TestHK03_OnlyCommandsOfTheMeasuredTextRun, with exactly the declared arguments.
func TestHK03_OnlyCommandsOfTheMeasuredTextRun(t *testing.T) {
	var got []call.Request
	r, out, _ := newRunner(t, slog.LevelDebug, func(req call.Request) call.Reply {
		got = append(got, req)
		return call.Reply{End: call.Exited, Output: []byte("a\x07")}
	})
	if err := r.Run(t.Context(), look, []string{"CADRE_HOOK=h"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !slices.Equal(got[0].Argv, []string{"cat", "/run/mesh/secrets/superuser"}) || got[0].Time != time.Minute {
		t.Errorf("asked for %+v", got)
	}
	if !strings.Contains(out.String(), `\\a`) || strings.Contains(out.String(), "\x07") {
		t.Errorf("debug log: %s", out.String())
	}
	for _, a := range []group.ExecAction{{}, {Service: "db"}, {Service: "db", Command: "cat"}, {Service: "cadre", Command: "look"}, {Service: "../db", Command: "look"}} {
		if err := r.Run(t.Context(), a, nil, time.Minute); err == nil || !strings.Contains(err.Error(), "EXEC_FORBIDDEN") {
			t.Errorf("%+v: %v", a, err)
		}
	}
	fresh := command.New(t.TempDir(), slog.New(slog.DiscardHandler))
	if err := fresh.Run(t.Context(), look, nil, time.Minute); err == nil {
		t.Error("a command was run before the measured text was known")
	}
	fresh.Declare(strings.Replace(compose, "cat,", "$CAT,", 1))
	if err := fresh.Run(t.Context(), look, nil, time.Minute); err == nil || !strings.Contains(err.Error(), "EXEC_FORBIDDEN") {
		t.Errorf("a text with a variable: %v", err)
	}
	if len(got) != 1 {
		t.Errorf("%d requests", len(got))
	}
}

// TestAHookWaitsForItsService, and a check does not: a service that takes no commands is a result.
func TestAHookWaitsForItsService(t *testing.T) {
	dir := t.TempDir()
	r := command.New(dir, slog.New(slog.DiscardHandler))
	r.Declare(compose)
	if err := r.Run(t.Context(), look, nil, time.Minute); !errors.Is(err, call.ErrNotThere) || err.Error() != "service db takes no commands now" {
		t.Errorf("check: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.RunUntil(ctx, look, nil, time.Minute); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "takes no commands now") {
		t.Errorf("hook whose time is up: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- r.RunUntil(t.Context(), look, nil, time.Minute) }()
	agenttest.ServeCommands(t, filepath.Join(dir, "db"), func(call.Request) call.Reply { return call.Reply{End: call.Exited} })
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTheEndOfACommandIsReported.
func TestTheEndOfACommandIsReported(t *testing.T) {
	var reply call.Reply
	r, _, _ := newRunner(t, slog.LevelInfo, func(call.Request) call.Reply { return reply })
	for want, is := range map[string]call.Reply{
		"ended with code 3":                    {End: call.Exited, Code: 3},
		"was ended by signal 9: low on fuel":   {End: call.Signalled, Code: 9, Reason: "low on fuel"},
		"HOOK_TIMEOUT: was not done in 1m0s":   {End: call.TimedOut},
		`was not started: no\x1b such program`: {End: call.NotStarted, Problem: "no\x1b such program\nx"},
		"gave no sound answer":                 {},
	} {
		reply = is
		if err := r.Run(t.Context(), look, nil, time.Minute); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", is, err, want)
		}
	}
}

// TestINP11_ALinkInAServicesFolderIsNotFollowed: it would lead to sockets that only the
// agent has.
func TestINP11_ALinkInAServicesFolderIsNotFollowed(t *testing.T) {
	r, dir := (*command.Runner)(nil), t.TempDir()
	elsewhere, err := net.Listen("unix", filepath.Join(t.TempDir(), "dstack.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close() //nolint:errcheck // test
	go func() {
		if conn, err := elsewhere.Accept(); err == nil {
			t.Error("another socket was connected to")
			_ = conn.Close()
		}
	}()
	r = command.New(dir, slog.New(slog.DiscardHandler))
	r.Declare(compose)
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o750); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "db", call.SocketName)
	if err := os.Symlink(elsewhere.Addr().String(), socket); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), look, nil, time.Minute); err == nil || !strings.Contains(err.Error(), "PATH_ESCAPE") {
		t.Errorf("link: %v", err)
	}
	_ = os.Remove(socket)
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), look, nil, time.Minute); err == nil || !strings.Contains(err.Error(), "PATH_ESCAPE") {
		t.Errorf("file: %v", err)
	}
}

// TestOnlyMeasuredServicesAreRestarted, and a rejection has the reason from init.
func TestOnlyMeasuredServicesAreRestarted(t *testing.T) {
	var asked []call.Request
	answer := call.Reply{End: call.Exited}
	r, _, log := newRunner(t, slog.LevelInfo, func(req call.Request) call.Reply { asked = append(asked, req); return answer })
	if err := r.Restart(t.Context(), "db"); err != nil {
		t.Error(err)
	}
	if len(asked) != 1 || !asked[0].Restart || len(asked[0].Argv) > 0 || asked[0].Time != 30*time.Second {
		t.Errorf("asked %+v", asked)
	}
	for said, want := range map[string]time.Duration{"90s": 90 * time.Second, "10s": 10 * time.Second, "1h": 2 * time.Minute} {
		asked = nil
		r.Declare(strings.Replace(compose, "  db:\n", "  db:\n    stop_grace_period: "+said+"\n", 1))
		if err := r.Restart(t.Context(), "db"); err != nil || len(asked) != 1 || asked[0].Time != want {
			t.Errorf("a stop_grace_period of %s: %v, asked %+v", said, err, asked)
		}
	}
	r.Declare(compose)
	if err := r.Restart(t.Context(), "web"); err == nil || !strings.Contains(err.Error(), "EXEC_FORBIDDEN") {
		t.Errorf("a service without the key: %v", err)
	}
	answer = call.Reply{End: call.NotStarted, Problem: "the container ends"}
	if err := r.Restart(t.Context(), "db"); err == nil || !strings.Contains(err.Error(), "container ends") {
		t.Errorf("refused by init: %v", err)
	}
	if err := command.New(t.TempDir(), log).Restart(t.Context(), "db"); err == nil {
		t.Error("restarted before the measured text is known")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("called off"))
	gone := command.New(t.TempDir(), log)
	gone.Declare(compose)
	if err := gone.Restart(ctx, "db"); err == nil || !strings.Contains(err.Error(), "called off") {
		t.Errorf("called off: %v", err)
	}
}

// TestACommandIsAsked: it gets the request, and its answer and code come back. An earlier service, which
// gives no answers, is named with the way out.
func TestACommandIsAsked(t *testing.T) {
	var got call.Request
	var reply call.Reply
	r, _, _ := newRunner(t, slog.LevelInfo, func(req call.Request) call.Reply { got = req; return reply })
	ask := func() ([]byte, int, error) { return r.Ask(t.Context(), look, []byte(`{"do":"add"}`), time.Minute) }
	reply = call.Reply{End: call.Exited, Answer: []byte("{}")}
	answer, code, err := ask()
	if err != nil || code != 0 || string(answer) != "{}" || !got.Answer || string(got.Input) != `{"do":"add"}` || got.Time != time.Minute {
		t.Errorf("%q, %d, %v; asked %+v", answer, code, err, got)
	}
	reply = call.Reply{End: call.Exited, Code: 75, Reason: "a change runs"}
	if _, code, err := ask(); code != 75 || err == nil || err.Error() != "command db/look ended with code 75: a change runs" {
		t.Errorf("%d, %v", code, err)
	}
	reply = call.Reply{End: call.TimedOut}
	if _, code, err := ask(); code != -1 || err == nil {
		t.Errorf("%d, %v", code, err)
	}
	reply = call.Reply{End: call.NotStarted, Problem: `frame: json: unknown field "answer"`}
	if _, code, err := ask(); code != -1 || err == nil || !strings.Contains(err.Error(), "start its container again") {
		t.Errorf("%d, %v", code, err)
	}
}
