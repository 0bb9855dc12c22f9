package handover

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"cadre.dev/agent/internal/pooler"
)

// TestThroughARealPooler: a route's PgBouncer is paused and resumed, and outlives its worker
// if it is to.
func TestThroughARealPooler(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PgBouncer")
	}
	if _, err := exec.LookPath("pgbouncer"); err != nil || os.Getuid() != 0 {
		t.Skip("needs pgbouncer on PATH and root: a pooler was not paused for real")
	}
	dir, err := os.MkdirTemp("", "cadre-pause-") //nolint:usetesting // another user must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0711"); err != nil {
		t.Skipf("skipped: a file system in memory needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	vip := l.Addr().(*net.TCPAddr).AddrPort()
	_ = l.Close()
	r := Route{
		Name: "master", Group: "db", Role: "leader", Pooler: PgBouncer, Pause: 5 * time.Second,
		VIP: vip.Addr(), Port: vip.Port(), Behind: netip.MustParseAddr("127.11.0.1"),
	}
	cfg := Config{
		Dir: dir, UID: 64124, GID: 64124, Keep: true, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		VIP:       func(string) (netip.Addr, bool) { return netip.Addr{}, false },
		Endpoints: func(context.Context, string, time.Duration) ([]netip.AddrPort, error) { return at(1), nil },
	}
	worker := func() (s *Routes, stop func()) {
		s = New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		if err := s.Set([]Route{r}); err != nil {
			t.Fatal(err)
		}
		until(t, "the pooler is up", func() bool { got := s.Stats(); return len(got) == 1 && got[0].Pooler.Up })
		return s, func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	s, stop := worker()
	if got := states(s.Pause(t.Context(), "db", "op", 0)); got != "master paused" {
		t.Errorf("got %s", got)
	}
	s.Release("db", "op", "")
	until(t, "it is resumed", func() bool { got := s.Stats(); return !got[0].Paused && !got[0].Pooler.Paused })
	if got := states(s.Pause(t.Context(), "db", "op2", 200*time.Millisecond)); got != "master paused" {
		t.Errorf("got %s", got)
	}
	until(t, "the limit ends it", func() bool { got := s.Stats(); return !got[0].Paused && !got[0].Pooler.Paused })
	if got := states(s.Pause(t.Context(), "db", "op3", 0)); got != "master paused" {
		t.Errorf("got %s", got)
	}
	stop()
	if err := pooler.ResumeAll(t.Context(), dir, cfg.Log); err != nil { // as a worker begins
		t.Error(err)
	}
	cfg.Keep = false
	s, stop = worker()
	if got := s.Stats()[0].Pooler; got.TakenOver != 1 || got.Starts != 0 || got.Paused {
		t.Errorf("%+v, want it taken over", got)
	}
	stop()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(30 * time.Second); !is(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within 30s: %s", what)
		}
	}
}
