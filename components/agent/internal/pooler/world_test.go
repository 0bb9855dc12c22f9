package pooler

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	account "os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// PgBouncer runs as uid here; no other process does.
const uid = 64123

// server is a real PostgreSQL with one application's user.
type server struct {
	t      *testing.T
	dir    string
	at     netip.AddrPort
	argv   []string
	cred   *syscall.Credential
	cmd    *exec.Cmd
	secret string // file of app's password
}

// freeAddress gives each test an address of its own.
func freeAddress(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// openFolder returns a folder that every user may enter.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cadre-pooler-") //nolint:usetesting // another user must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inMemory is an open folder in memory.
func inMemory(t *testing.T) string {
	t.Helper()
	dir := openFolder(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0711"); err != nil {
		t.Skipf("skipped: a file system in memory needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func needReal(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts PostgreSQL and PgBouncer")
	}
	if _, err := exec.LookPath("pgbouncer"); err != nil {
		t.Skip("no pgbouncer on PATH: the pooler was not tested against the real software")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: PgBouncer and PostgreSQL run as other users")
	}
}

const pgBin = "/usr/lib/postgresql/15/bin"

func startServer(t *testing.T) *server {
	t.Helper()
	needReal(t)
	if _, err := os.Stat(pgBin); err != nil {
		t.Skipf("no PostgreSQL at %s: the pooler was not tested against the real software", pgBin)
	}
	owner, err := account.Lookup("postgres")
	if err != nil {
		t.Skip("no account named postgres: PostgreSQL refuses to run as root")
	}
	id, err := strconv.Atoi(owner.Uid)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, dir: openFolder(t), at: freeAddress(t), cred: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
	if err := os.Chown(s.dir, id, id); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(s.dir, "data")
	s.run(filepath.Join(pgBin, "initdb"), "-D", data, "-U", "postgres", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync", "-E", "UTF8")
	s.trust("free")
	s.argv = []string{
		filepath.Join(pgBin, "postgres"), "-D", data, "-h", s.at.Addr().String(), "-p", strconv.Itoa(int(s.at.Port())),
		"-k", s.dir, "-c", "fsync=off", "-c", "shared_buffers=16MB",
	}
	s.start()
	t.Cleanup(s.stop)
	s.secret = filepath.Join(inMemory(t), "app")
	s.admin("CREATE ROLE app LOGIN")
	s.setPassword("first secret")
	s.admin("CREATE DATABASE shop OWNER app")
	return s
}

func (s *server) run(argv ...string) {
	s.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v: %s", argv[0], err, out)
	}
}

// trust has the server ask user for no password, before it starts.
func (s *server) trust(user string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "data", "pg_hba.conf")
	rules, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append([]byte("host all "+user+" 127.0.0.1/32 trust\n"), rules...), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.argv[0], s.argv[1:]...)
	s.cmd.Dir, s.cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.cred}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	within(s.t, "start PostgreSQL", func(ctx context.Context) error {
		c, err := login(ctx, "unix", filepath.Join(s.dir, ".s.PGSQL."+strconv.Itoa(int(s.at.Port()))), "postgres", "postgres")
		if err == nil {
			c.close()
		}
		return err
	})
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGINT) // fast: it closes open connections
	_ = s.cmd.Wait()
}

func (s *server) admin(text string) {
	s.t.Helper()
	c, err := login(s.t.Context(), "unix", filepath.Join(s.dir, ".s.PGSQL."+strconv.Itoa(int(s.at.Port()))), "postgres", "postgres")
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.close()
	if _, err := c.query(s.t.Context(), text); err != nil {
		s.t.Fatal(err)
	}
}

// setPassword rotates app's, in the database and in its file.
func (s *server) setPassword(text string) {
	s.t.Helper()
	s.admin("ALTER ROLE app PASSWORD '" + text + "'")
	if err := os.WriteFile(s.secret, []byte(text), 0o400); err != nil {
		s.t.Fatal(err)
	}
}

// within polls f until it gives nil.
func within(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within 30s: %v", what, err)
		}
	}
}

// world is one Pooler in front of a server.
type world struct {
	*Pooler

	t    *testing.T
	stop func()
}

func (s *server) pooler(t *testing.T) *world {
	t.Helper()
	return runPooler(t, s.config(t))
}

func (s *server) config(t *testing.T) Config {
	return Config{
		Route: "db", Dir: inMemory(t), Address: freeAddress(t), Target: s.at, UID: uid, GID: uid,
		Users: map[string]string{"app": s.secret}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// runPooler runs one until the test ends, or stop is called, as its worker would.
func runPooler(t *testing.T, cfg Config) *world {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Pooler: p, t: t}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		w.stop()
		if err := p.End(); err != nil {
			t.Error(err)
		}
	})
	w.until("up", func(s Stats) bool { return s.Up })
	return w
}

func (w *world) until(what string, is func(Stats) bool) {
	w.t.Helper()
	within(w.t, what, func(context.Context) error {
		if s := w.Stats(); !is(s) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// connect logs in as an application does, with the password that its file has.
func (w *world) connect(user string) (*client, error) {
	return w.connectTo(user, "shop")
}

func (w *world) connectTo(user, database string) (*client, error) {
	w.mu.Lock()
	file := w.users[user]
	w.mu.Unlock()
	password, err := readPassword(file)
	if err != nil {
		return nil, err
	}
	return w.connectWith(user, database, password)
}

func (w *world) connectWith(user, database, password string) (*client, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	c, err := loginWith(ctx, w.cfg.Address.String(), user, database, password)
	if err == nil {
		w.t.Cleanup(c.close)
	}
	return c, err
}

func (w *world) app() *client {
	w.t.Helper()
	c, err := w.connect("app")
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// asks starts a query, and returns its result.
func (w *world) asks(c *client, text string) <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_, err := c.query(ctx, text)
		done <- err
	}()
	return done
}

func (w *world) get(c *client, text string) string {
	w.t.Helper()
	rows, err := c.query(w.t.Context(), text)
	if err != nil || len(rows) != 1 || len(rows[0]) != 1 {
		w.t.Fatalf("%s: %v, %v; want one value", text, rows, err)
	}
	for _, v := range rows[0] {
		return v
	}
	return ""
}

// waiting waits until PgBouncer has n clients that wait.
func (w *world) waiting(n int) {
	w.t.Helper()
	w.sees(fmt.Sprintf("%d clients wait", n), func(pools []map[string]string) bool { return sum(pools, "cl_waiting") == n })
}

// sees waits until the console's rows about the pools satisfy is.
func (w *world) sees(what string, is func(pools []map[string]string) bool) {
	w.t.Helper()
	within(w.t, what, func(ctx context.Context) error {
		c, err := w.console(ctx)
		if err != nil {
			return err
		}
		defer c.close()
		rows, err := c.query(ctx, "SHOW POOLS")
		if err == nil && !is(rows) {
			err = fmt.Errorf("%v", rows)
		}
		return err
	})
}

func sum(pools []map[string]string, column string) int {
	n := 0
	for _, row := range pools {
		n += number(row, column)
	}
	return n
}

// busy opens a transaction on c while other has a server, too, and starts PAUSE, until the idle
// servers report it.
func (w *world) busy(c, other *client) (paused <-chan error) {
	w.t.Helper()
	if _, err := c.query(w.t.Context(), "BEGIN"); err != nil {
		w.t.Fatal(err)
	}
	w.get(other, "SELECT 1")
	done := make(chan error, 1)
	go func() { done <- w.Pause(context.Background(), time.Minute) }()
	w.sees("servers that are not in use are closed", func(pools []map[string]string) bool {
		return sum(pools, "sv_active") == 1 && sum(pools, "sv_idle")+sum(pools, "sv_used")+sum(pools, "sv_login") == 0
	})
	return done
}

func (w *world) pid() int { return w.cfg.folder().readPID() }

func pending(t *testing.T, done <-chan error, what string) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("%s did not wait: %v", what, err)
	default:
	}
}
