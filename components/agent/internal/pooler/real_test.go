package pooler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReal runs the real PgBouncer in front of the real PostgreSQL.
func TestReal(t *testing.T) {
	s := startServer(t)
	for name, f := range map[string]func(*testing.T, *server){
		"queries reach the server":                  queries,
		"no administration over TCP":                noConsoleOverTCP,
		"a pause holds queries until it is resumed": pauses,
		"a pause waits for transactions":            pauseWaitsForTransactions,
		"a long transaction bounds a pause":         pauseIsBounded,
		"a wait for closes before a pause":          pauseAfterWaitClose,
		"a release ends a pause on its way":         releasedBeforePaused,
		"a pause ends by its limit":                 limitEndsPause,
		"a pause gets more time":                    pauseGetsMoreTime,
		"hand-overs under load":                     handOversUnderLoad,
		"a pause waits for a slow login":            slowLogin,
		"killed, it is started again":               killed,
		"killed within a pause, it is paused again": killedWhilePaused,
		"stuck, it is ended":                        stuckWhilePaused,
		"a worker that dies within a pause":         workerDiesWhilePaused,
		"a worker that ends within a pause":         workerEndsWhilePaused,
		"another target ends the running pooler":    anotherTarget,
		"a password that rotates":                   rotation,
		"a password that is missing":                missingPassword,
		"a password that is not given":              wrongPassword,
		"a user that gets a password":               passwordFromNowOn,
		"a worker that dies before its rules count": rulesOfAWorkerThatDied,
		"an address that is taken":                  takenAddress,
		"reconnect replaces servers":                reconnects,
		"those of routes that are gone":             routesThatAreGone,
	} {
		t.Run(name, func(t *testing.T) { f(t, s) })
	}
}

func queries(t *testing.T, s *server) {
	w := s.pooler(t)
	if got := w.get(w.app(), "SELECT current_user || ' of ' || current_database()"); got != "app of shop" {
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"postgres", "nobody"} {
		if _, err := w.connect(name); err == nil {
			t.Errorf("%s, which the route does not name, was let in", name)
		}
	}
	if got := w.cfg.folder(); mode(t, got.run()) != 0o700 || mode(t, got.path(usersFile)) != 0o600 {
		t.Errorf("others may read %s or %s", got.run(), got.path(usersFile))
	}
	if n := (&process{pid: w.pid()}).openFiles(); n == 0 {
		t.Error("how many files it may open is not known")
	}
	w.until("its counters are seen", func(s Stats) bool { return s.Clients == 1 && s.Servers == 1 && s.Starts == 1 })
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func noConsoleOverTCP(t *testing.T, s *server) {
	w := s.pooler(t)
	for _, tc := range [][2]string{{admin, console}, {"app", console}, {"pgbouncer", console}, {"postgres", console}, {admin, "shop"}} {
		if _, err := w.connectTo(tc[0], tc[1]); err == nil {
			t.Errorf("%s was let in to %s over TCP", tc[0], tc[1])
		}
	}
	// The socket is for the agent alone, and only for its own user name.
	socket := w.cfg.folder().socket(w.cfg.Address.Port())
	for _, tc := range [][2]string{{"app", console}, {admin, "shop"}, {"postgres", "shop"}} {
		if _, err := login(t.Context(), "unix", socket, tc[0], tc[1]); err == nil {
			t.Errorf("%s was let in to %s over the socket", tc[0], tc[1])
		}
	}
	if err := w.Pause(t.Context(), time.Minute); err != nil { // the agent is
		t.Error(err)
	}
}

func pauses(t *testing.T, s *server) {
	w := s.pooler(t)
	a, b := w.app(), w.app()
	w.get(a, "SELECT 1")
	for range 3 {
		if err := w.Pause(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := w.Pause(t.Context(), time.Minute); err != nil {
			t.Errorf("again: %v", err)
		}
		c := w.app() // a new client is let in at once
		done := []<-chan error{w.asks(a, "SELECT 1"), w.asks(b, "SELECT 1"), w.asks(c, "SELECT 1")}
		w.waiting(3)
		for _, d := range done {
			pending(t, d, "a query")
		}
		if n, err := w.Resume(t.Context()); n != 3 || err != nil {
			t.Errorf("resume: %d waited, %v; want 3", n, err)
		}
		for _, d := range done {
			if err := <-d; err != nil {
				t.Error(err)
			}
		}
		if n, err := w.Resume(t.Context()); n != 0 || err != nil {
			t.Errorf("resume without a pause: %d, %v", n, err)
		}
	}
	if got := w.Stats(); got.Pauses != 3 || got.PausesFailed != 0 || got.PausesExpired != 0 || got.Paused {
		t.Errorf("%+v", got)
	}
}

func pauseWaitsForTransactions(t *testing.T, s *server) {
	w := s.pooler(t)
	c, other := w.app(), w.app()
	paused := w.busy(c, other)
	late := w.asks(other, "SELECT 1")
	w.waiting(1)
	pending(t, paused, "the pause")
	w.get(c, "SELECT 2") // the transaction continues
	if _, err := c.query(t.Context(), "COMMIT"); err != nil {
		t.Error(err)
	}
	if err := <-paused; err != nil {
		t.Error(err)
	}
	pending(t, late, "a query that came later")
	if _, err := w.Resume(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-late; err != nil {
		t.Error(err)
	}
}

func pauseIsBounded(t *testing.T, s *server) {
	w := s.pooler(t)
	c := w.app()
	if _, err := c.query(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := w.Pause(t.Context(), time.Minute); !errors.Is(err, errBusy) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took < pauseWithin || took > pauseWithin+commandWithin {
		t.Errorf("it took %v", took)
	}
	w.get(w.app(), "SELECT 1") // no client waits
	w.get(c, "SELECT 1")
	if _, err := c.query(t.Context(), "COMMIT"); err != nil {
		t.Error(err)
	}
	if got := w.Stats(); got.PausesFailed != 1 || got.Paused {
		t.Errorf("%+v", got)
	}
	if err := w.Pause(t.Context(), time.Minute); err != nil {
		t.Errorf("once the transaction is over: %v", err)
	}
}

func releasedBeforePaused(t *testing.T, s *server) {
	w := s.pooler(t)
	c, other := w.app(), w.app()
	paused := w.busy(c, other)
	done := w.asks(other, "SELECT 1")
	w.waiting(1)
	began := time.Now()
	if _, err := w.Resume(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-paused; !errors.Is(err, errReleased) {
		t.Errorf("the pause: %v", err)
	}
	if err := <-done; err != nil || time.Since(began) > time.Second {
		t.Errorf("the query: %v after %v", err, time.Since(began))
	}
}

func limitEndsPause(t *testing.T, s *server) {
	w := s.pooler(t)
	c := w.app()
	w.get(c, "SELECT 1")
	began := time.Now()
	const limit = 300 * time.Millisecond
	if err := w.Pause(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if err := <-w.asks(c, "SELECT 1"); err != nil || time.Since(began) < limit {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	w.until("the limit is counted", func(s Stats) bool { return s.PausesExpired == 1 && !s.Paused })
}

func pauseGetsMoreTime(t *testing.T, s *server) {
	w := s.pooler(t)
	c := w.app()
	w.get(c, "SELECT 1")
	if err := w.Pause(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	done := w.asks(c, "SELECT 1")
	w.waiting(1)
	began := time.Now()
	if err := w.Pause(t.Context(), 200*time.Millisecond); err != nil { // or less
		t.Fatal(err)
	}
	if err := <-done; err != nil || time.Since(began) < 200*time.Millisecond {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// pauseAfterWaitClose: after one WAIT_CLOSE PgBouncer 1.18 answers a PAUSE at once, with the tag of
// the WAIT_CLOSE, while a transaction is open. That is no pause.
func pauseAfterWaitClose(t *testing.T, s *server) {
	w := s.pooler(t)
	c := w.app()
	if _, err := c.query(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	console, err := w.console(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer console.close()
	if _, err := console.query(t.Context(), "WAIT_CLOSE"); err != nil {
		t.Fatal(err)
	}
	if err := w.Pause(t.Context(), time.Minute); err == nil {
		t.Error("a pause succeeded while a transaction is open")
	} else {
		t.Log(err)
	}
	if _, err := c.query(t.Context(), "COMMIT"); err != nil {
		t.Error(err)
	}
	w.until("no pause is left", func(s Stats) bool { return !s.Paused && s.PausesFailed == 1 })
	w.get(c, "SELECT 1")
}

func killed(t *testing.T, s *server) {
	w := s.pooler(t)
	c := w.app()
	w.get(c, "SELECT 1")
	w.until("its pool is seen", func(s Stats) bool { return s.Clients == 1 })
	for n := uint64(2); n < 4; n++ {
		if err := syscall.Kill(w.pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		w.until("another one runs", func(s Stats) bool { return s.Up && s.Starts == n })
		// The new PgBouncer warmed the pools of the previous one: a new client is let in while it
		// is paused.
		w.sees("it is warm", func(pools []map[string]string) bool {
			return slices.ContainsFunc(pools, func(row map[string]string) bool {
				return row["database"] == "shop" && row["user"] == "app" && row["sv_idle"] == "1"
			})
		})
		w.get(w.app(), "SELECT 1")
	}
}

func killedWhilePaused(t *testing.T, s *server) {
	w := s.pooler(t)
	w.get(w.app(), "SELECT 1")
	if err := w.Pause(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(w.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.until("another one runs", func(s Stats) bool { return s.Up && s.Starts == 2 && s.Paused })
	connected := make(chan error, 1)
	go func() {
		_, err := w.connect("app") // on a new one the connect waits
		connected <- err
	}()
	w.waiting(1)
	pending(t, connected, "a connect")
	if n, err := w.Resume(t.Context()); n != 1 || err != nil {
		t.Errorf("resume: %d waited, %v", n, err)
	}
	if err := <-connected; err != nil {
		t.Error(err)
	}
}

// stuckWhilePaused: a command that gets no answer is retried.
func stuckWhilePaused(t *testing.T, s *server) {
	w := s.pooler(t)
	c := w.app()
	w.get(c, "SELECT 1")
	if err := w.Pause(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	done := w.asks(c, "SELECT 1")
	w.waiting(1)
	pid := w.pid()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Resume(t.Context()); !errors.Is(err, errSilent) {
		t.Errorf("resume of a stuck pooler: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("once it is not: %v", err)
	}
	w.until("the pause is over", func(s Stats) bool { return !s.Paused })
	if w.pid() != pid {
		t.Error("it was ended for it")
	}
}

func workerDiesWhilePaused(t *testing.T, s *server) {
	w := s.pooler(t)
	c := w.app()
	w.get(c, "SELECT 1")
	pid := w.pid()
	w.stop()
	// This is the state after a worker was killed within a pause.
	console, err := w.console(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := console.query(t.Context(), "PAUSE"); err != nil {
		t.Fatal(err)
	}
	console.close()
	done := w.asks(c, "SELECT 1")
	w.waiting(1)

	next := runPooler(t, w.cfg)
	if err := <-done; err != nil {
		t.Errorf("the query that waited: %v", err)
	}
	if got := next.Stats(); got.TakenOver != 1 || got.Starts != 0 || next.pid() != pid {
		t.Errorf("%+v, pid %d was %d: want it taken over", got, next.pid(), pid)
	}
	w.get(c, "SELECT 1") // its connections are kept
	// It is watched though it is no child of this process.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next.until("another one runs", func(s Stats) bool { return s.Up && s.Starts == 1 })

	// Before anything else is known, all can be resumed.
	next.stop()
	if console, err = next.console(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer console.close()
	if _, err := console.query(t.Context(), "PAUSE"); err != nil {
		t.Fatal(err)
	}
	if err := ResumeAll(t.Context(), w.cfg.Dir, w.log); err != nil {
		t.Error(err)
	}
	if _, err := console.query(t.Context(), "RESUME"); err == nil {
		t.Error("it was still paused")
	}
	if err := ResumeAll(t.Context(), filepath.Join(w.cfg.Dir, "none"), w.log); err != nil {
		t.Error(err)
	}
}

func workerEndsWhilePaused(t *testing.T, s *server) {
	w := s.pooler(t)
	c := w.app()
	w.get(c, "SELECT 1")
	if err := w.Pause(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	done := w.asks(c, "SELECT 1")
	w.waiting(1)
	w.stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := w.Pause(t.Context(), time.Minute); !errors.Is(err, errDown) {
		t.Errorf("pause without Run: %v", err)
	}
}

func anotherTarget(t *testing.T, s *server) {
	w := s.pooler(t)
	w.get(w.app(), "SELECT 1")
	pid := w.pid()
	w.stop()
	cfg := w.cfg
	cfg.Target = freeAddress(t) // no server listens there
	next := runPooler(t, cfg)
	if got := next.Stats(); got.TakenOver != 0 || got.Starts != 1 || next.pid() == pid {
		t.Errorf("%+v, pid %d was %d: want another one", got, next.pid(), pid)
	}
	if _, err := syscall.Getpgid(pid); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the one before is there: %v", err)
	}
}

func rotation(t *testing.T, s *server) {
	w := s.pooler(t)
	c := w.app()
	w.get(c, "SELECT 1")
	for _, password := range []string{`with "quotes" and \`, "second secret", "first secret"} {
		before := w.Stats().Reloads
		s.setPassword(password)
		w.until("it is read", func(s Stats) bool { return s.Reloads > before })
		if err := w.Reconnect(t.Context()); err != nil { // so that it has to log in
			t.Fatal(err)
		}
		w.get(c, "SELECT 1")
		w.get(w.app(), "SELECT 1")
	}
	w.stop()
	s.setPassword("unobserved password")
	next := runPooler(t, w.cfg)
	if err := next.Reconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	next.get(c, "SELECT 1")
	s.setPassword("first secret")
}

func missingPassword(t *testing.T, s *server) {
	other := filepath.Join(inMemory(t), "other")
	s.admin("CREATE ROLE other LOGIN PASSWORD 'x'")
	t.Cleanup(func() { s.admin("DROP ROLE other") })
	w := s.pooler(t)
	if err := w.SetUsers(map[string]string{"app": s.secret, "other": other}); err != nil {
		t.Fatal(err)
	}
	w.until("the problem is reported", func(s Stats) bool { return strings.Contains(s.Problem, "user other: "+other+" does not exist") })
	w.get(w.app(), "SELECT 1") // the others can work
	if err := os.WriteFile(other, []byte("x\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	within(t, "it is let in", func(context.Context) error {
		_, err := w.connect("other")
		return err
	})
	w.until("nothing is wrong", func(s Stats) bool { return s.Problem == "" })
	if err := w.SetUsers(map[string]string{"": "/x"}); err == nil {
		t.Error("a user without a name was taken")
	}
}

// wrongPassword: a client without the right password is rejected, and reaches no server.
func wrongPassword(t *testing.T, s *server) {
	w := s.pooler(t)
	for _, password := range []string{"", "wrong", "first secret "} {
		if _, err := w.connectWith("app", "shop", password); err == nil {
			t.Errorf("app was let in with %q", password)
		}
	}
	w.sees("no client has a server", func(pools []map[string]string) bool { return sum(pools, "sv_idle") == 0 })
	w.get(w.app(), "SELECT 1")
}

// passwordFromNowOn: a user is trusted only as long as the route names no secret for it. Neither
// change needs another PgBouncer.
func passwordFromNowOn(t *testing.T, s *server) {
	s.admin("CREATE ROLE free LOGIN")
	t.Cleanup(func() { s.admin("DROP ROLE free") })
	cfg := s.config(t)
	cfg.Users = map[string]string{"free": ""}
	w := runPooler(t, cfg)
	letIn := func(password string, want bool) {
		t.Helper()
		within(t, fmt.Sprintf("let in with %q: %v", password, want), func(context.Context) error {
			c, err := w.connectWith("free", "shop", password)
			if err == nil {
				c.close()
			}
			if (err == nil) != want {
				return fmt.Errorf("it is %v, %w", err == nil, err)
			}
			return nil
		})
	}
	letIn("", true)
	if _, err := w.connectWith("free", console, ""); err == nil {
		t.Error("a user that is believed was let in to the console")
	}
	if err := w.SetUsers(map[string]string{"free": s.secret}); err != nil {
		t.Fatal(err)
	}
	letIn("", false)
	letIn("wrong", false)
	letIn("first secret", true)
	if err := w.SetUsers(cfg.Users); err != nil {
		t.Fatal(err)
	}
	letIn("", true)
	// PgBouncer applies the rules a moment before it logs that it has read them.
	within(t, "one start and two reloads", func(context.Context) error {
		if got := w.Stats(); got.Starts != 1 || got.Reloads != 2 {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
}

// rulesOfAWorkerThatDied: it wrote that app has a password, and was killed before it had
// PgBouncer read that.
func rulesOfAWorkerThatDied(t *testing.T, s *server) {
	w := s.pooler(t)
	w.stop()
	console, err := w.console(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer console.close()
	for _, users := range []map[string]string{{"app": ""}, w.cfg.Users} {
		if _, err := w.cfg.put(hbaFile, hba(users)); err != nil {
			t.Fatal(err)
		}
		if users["app"] == "" {
			if _, err := console.query(t.Context(), "RELOAD"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c, err := w.connectWith("app", "shop", ""); err != nil {
		t.Fatalf("by the rules of before: %v", err)
	} else {
		c.close()
	}
	next := runPooler(t, w.cfg)
	if _, err := next.connectWith("app", "shop", ""); err == nil {
		t.Error("the next worker leaves the rules of before")
	}
	next.get(next.app(), "SELECT 1")
}

func takenAddress(t *testing.T, s *server) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p, err := New(Config{
		Route: "db", Dir: inMemory(t), Address: taken.Addr().(*net.TCPAddr).AddrPort(), Target: s.at, UID: uid, GID: uid,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	w := &world{Pooler: p, t: t}
	refuse := make(chan struct{})
	go func() {
		defer close(refuse)
		for { // it is asked whether it is PgBouncer
			c, err := taken.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	w.until("the problem is reported", func(s Stats) bool { return strings.Contains(s.Problem, "does not listen for the route") })
	_ = taken.Close()
	<-refuse
	w.until("it is up", func(s Stats) bool { return s.Up })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := p.End(); err != nil {
		t.Error(err)
	}
}

func reconnects(t *testing.T, s *server) {
	w := s.pooler(t)
	c := w.app()
	before := w.get(c, "SELECT pg_backend_pid()")
	if got := w.get(c, "SELECT pg_backend_pid()"); got != before {
		t.Fatalf("server %s, then %s: no pool", before, got)
	}
	if err := w.Reconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.get(c, "SELECT pg_backend_pid()"); got == before {
		t.Error("the server before is still used")
	}
}

func routesThatAreGone(t *testing.T, s *server) {
	w := s.pooler(t)
	pid := w.pid()
	w.stop()
	if err := EndOthers(Config{Dir: w.cfg.Dir, UID: uid, GID: uid}, []string{"db"}); err != nil {
		t.Error(err)
	}
	if w.pid() != pid {
		t.Error("a kept pooler was ended")
	}
	if err := EndOthers(Config{Dir: w.cfg.Dir, UID: uid, GID: uid}, nil); err != nil {
		t.Error(err)
	}
	if _, err := syscall.Getpgid(pid); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("it is there: %v", err)
	}
	if left, err := os.ReadDir(w.cfg.Dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := EndOthers(Config{Dir: filepath.Join(w.cfg.Dir, "none")}, nil); err != nil {
		t.Error(err)
	}
}
