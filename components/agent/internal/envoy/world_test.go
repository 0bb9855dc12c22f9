package envoy

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// binary finds Envoy below .tools of this repository or on PATH.
func binary(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if at, err := filepath.EvalSymlinks(filepath.Join(dir, ".tools/bin/envoy")); err == nil {
			return at
		}
	}
	at, err := exec.LookPath("envoy")
	if err != nil {
		t.Fatal("envoy is neither in .tools/bin nor on PATH: run make tools")
	}
	return at
}

// run is one Supervisor while it runs.
type run struct {
	t *testing.T
	*Supervisor

	stop func(cause error)
	over chan struct{}
}

// config is that of a test; the folder's Envoys end with the test.
func config(t *testing.T, c *control) Config {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "envoy")
	t.Cleanup(func() {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if err := sweep(context.Background(), folder(filepath.Join(dir, e.Name())), nil); err != nil {
				t.Error(err)
			}
		}
	})
	out := &lines{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", out.String())
		}
	})
	return Config{
		Binary: binary(t), RunDir: dir, XDS: c.at, Log: slog.New(slog.NewTextHandler(out, nil)),
		StopWithin: 1200 * time.Millisecond, mortal: true,
	}
}

// begin runs a Supervisor until the test or stop ends it.
func beginRun(t *testing.T, cfg Config, proxies ...Proxy) *run {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &run{t: t, Supervisor: s, over: make(chan struct{})}
	if len(proxies) > 0 {
		s.Set(proxies)
	}
	go func() {
		defer close(r.over)
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	r.stop = func(cause error) {
		cancel(cause)
		<-r.over
	}
	t.Cleanup(func() { r.stop(nil) })
	return r
}

// await waits until the proxy's status is as ok wants it.
func (r *run) await(id string, what string, ok func(Status) bool) Status {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	for {
		all, index := r.Statuses().Get()
		for _, s := range all {
			if s.ID == id && ok(s) {
				return s
			}
		}
		if _, _, err := r.Statuses().Wait(ctx, index); err != nil {
			r.t.Fatalf("%s is never %s: %+v", id, what, all)
		}
	}
}

func (r *run) live(id string) Status {
	r.t.Helper()
	return r.await(id, "live", func(s Status) bool { return s.State == StateLive })
}

// dial connects to an echoing listener, which has to be there.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	echoes(t, conn)
	return conn
}

func echoes(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// gone waits for the end of a process.
func gone(t *testing.T, pid int) {
	t.Helper()
	p, err := open(pid)
	if err != nil {
		return
	}
	go p.wait()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if !p.over(ctx) {
		t.Errorf("process %d goes on", pid)
	}
	p.release()
}

// lines is a log that may be read.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func logTo(out *lines) *slog.Logger { return slog.New(slog.NewTextHandler(out, nil)) }
