package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tool finds a binary below .tools of this repository, else on PATH, else skips.
func tool(t *testing.T, path string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != "/" {
		at := filepath.Join(dir, ".tools", path)
		if _, err := os.Stat(at); err == nil {
			return at
		}
		dir = filepath.Dir(dir)
	}
	if at, err := exec.LookPath(filepath.Base(path)); err == nil {
		return at
	}
	t.Skipf("%s is neither below .tools nor on PATH: this driver was not tested against the real software", path)
	return ""
}

// subnet gives each test of each process its own loopback addresses, so that members may use their
// software's default ports. Tests with real servers run in parallel: tests of the same software use
// different kinds. The addresses from 16 on fall into the kind above an even one, so that tests of
// Patroni, which use them, have no two such kinds.
func subnet(t *testing.T, kind byte) func(n int) netip.Addr {
	t.Helper()
	pid := os.Getpid()
	return func(n int) netip.Addr {
		return netip.AddrFrom4([4]byte{127, 128 | byte(pid>>8), byte(pid), kind<<4 | byte(n+1)})
	}
}

// proc is a member's process in a group of its own.
type proc struct {
	t    *testing.T
	argv []string
	env  []string
	log  string
	uid  uint32
	cmd  *exec.Cmd
}

func (p *proc) start() {
	p.t.Helper()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the child has its own
	p.cmd = exec.Command(p.argv[0], p.argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Dir = filepath.Dir(p.log)
	path := os.Getenv("PATH")
	if p.uid != 0 {
		path = reachablePath(p.t)
	}
	p.cmd.Env = append([]string{"PATH=" + path, "LC_ALL=C.UTF-8", "HOME=" + p.cmd.Dir}, p.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.uid != 0 {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.uid, Gid: p.uid}
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd := p.cmd
	p.t.Cleanup(func() {
		if cmd.ProcessState != nil {
			return
		}
		// In order first: PostgreSQL is in a group of its own and Patroni stops it.
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		_ = cmd.Wait()
		timer.Stop()
	})
}

// stop ends the member as its init system would.
func (p *proc) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait() // the exit code has no meaning (workload-handover 2.6)
}

// kill ends the member like a crash of its machine, without a goodbye.
func (p *proc) kill() {
	p.t.Helper()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.cmd.Wait() // its error is the kill
}

// within polls f until it gives nil; the last error is the failure.
func within(t *testing.T, limit time.Duration, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var last error
	err := poll(ctx, 100*time.Millisecond, func(ctx context.Context) (bool, error) {
		if err := f(ctx); err == nil || ctx.Err() == nil || last == nil { // an error of the expired wait itself is no news
			last = err
		}
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: not within %s: %v", what, limit, last)
	}
}

// realCluster is three members of one workload, each with its driver.
type realCluster struct {
	names   []string
	drivers []Driver
	procs   []*proc
	// settle is how long the software may need to form or to take a member back.
	settle time.Duration
	quorum bool
}

func (c *realCluster) views(ctx context.Context) ([]View, error) {
	out := make([]View, len(c.drivers))
	for i, d := range c.drivers {
		v, err := d.Observe(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.names[i], err)
		}
		out[i] = v
	}
	return out, nil
}

// healthy returns nil when all members agree on one leader and are caught up.
func (c *realCluster) healthy(ctx context.Context) error {
	views, err := c.views(ctx)
	if err != nil {
		return err
	}
	leaders := 0
	for i, v := range views {
		if v.Role == RoleLeader {
			leaders++
		}
		switch {
		case v.Liveness != LivenessAlive || !v.Ready || v.CaughtUp == nil || !*v.CaughtUp:
			return fmt.Errorf("%s: role %s liveness %q ready %t caught up %v: %s", c.names[i], v.Role, v.Liveness, v.Ready, v.CaughtUp != nil && *v.CaughtUp, v.Message)
		case v.Leader == "" || v.Leader != views[0].Leader:
			return fmt.Errorf("%s sees leader %q, %s sees %q", c.names[i], v.Leader, c.names[0], views[0].Leader)
		case v.Epoch != views[0].Epoch:
			return fmt.Errorf("%s has epoch %d, %s has %d", c.names[i], v.Epoch, c.names[0], views[0].Epoch)
		case !v.MayDisrupt:
			return fmt.Errorf("%s must not be disrupted: %s", c.names[i], v.MayDisruptReason)
		case v.QuorumMember != c.quorum || c.quorum && len(v.Voters) != len(c.names):
			return fmt.Errorf("%s: quorum member %t, voters %v", c.names[i], v.QuorumMember, v.Voters)
		}
	}
	if leaders != 1 {
		return fmt.Errorf("%d leaders", leaders)
	}
	return nil
}

func (c *realCluster) leader(t *testing.T) int {
	t.Helper()
	views, err := c.views(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range views {
		if v.Role == RoleLeader {
			return i
		}
	}
	t.Fatal("no leader")
	return 0
}

// contract runs every driver's promises against the real software.
func (c *realCluster) contract(t *testing.T) {
	within(t, c.settle, "form", c.healthy)
	c.observeIsCheap(t)
	c.refusesWithoutEffect(t)
	c.transfers(t)
	c.conforms(t)
	c.survivesRestart(t)
}

// Conformance holds d to the suite of package drivercheck, which imports this one.
var Conformance func(t *testing.T, d Driver, self string, votes bool, candidates []string)

// CheckAdapter is "cadre-agent driver check ARGS...": its exit code and its output.
var CheckAdapter func(ctx context.Context, args ...string) (code int, said string)

// conforms runs the suite for adapters at a follower, and at the leader, which hands over.
func (c *realCluster) conforms(t *testing.T) {
	t.Helper()
	at := c.leader(t)
	for _, i := range []int{(at + 1) % 3, at} {
		Conformance(t, c.drivers[i], c.names[i], c.quorum, []string{c.names[(i+1)%3], c.names[(i+2)%3]})
	}
	within(t, c.settle, "settle after the suite", c.healthy)
}

func (c *realCluster) observeIsCheap(t *testing.T) {
	t.Helper()
	for i, d := range c.drivers {
		start := time.Now()
		if _, err := d.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		t.Logf("observe %s: %s", c.names[i], took.Round(time.Millisecond))
		if took > time.Second {
			t.Errorf("observe %s took %s, want under 1s", c.names[i], took)
		}
	}
}

func (c *realCluster) refusesWithoutEffect(t *testing.T) {
	t.Helper()
	at := c.leader(t)
	for name, r := range map[string]TransferRequest{
		"unknown target":        {ExpectedLeader: c.names[at], Candidates: []string{"nobody-7"}},
		"no candidates":         {ExpectedLeader: c.names[at]},
		"another leader wanted": {ExpectedLeader: c.names[(at+1)%3], Candidates: []string{c.names[(at+2)%3]}},
	} {
		if got, err := c.drivers[at].Transfer(t.Context(), r); !errors.Is(err, ErrUnsafe) {
			t.Errorf("transfer with %s = %+v, %v; want ErrUnsafe", name, got, err)
		}
		if got, err := Prepare(t.Context(), c.drivers[at], r); err != nil && !errors.Is(err, ErrUnsafe) || got.Chosen != (Choice{}) {
			t.Errorf("prepare with %s = %+v, %v; want ErrUnsafe, or nothing", name, got, err)
		}
	}
	if now := c.leader(t); now != at {
		t.Errorf("leader moved from %s to %s by refused transfers", c.names[at], c.names[now])
	}
	follower := (at + 1) % 3
	got, err := c.drivers[follower].Transfer(t.Context(), TransferRequest{ExpectedLeader: c.names[follower], Candidates: []string{c.names[at]}})
	if err != nil || got.Moved || got.Leader != c.names[at] {
		t.Errorf("transfer at a follower = %+v, %v; want no move and leader %s", got, err, c.names[at])
	}
}

func (c *realCluster) transfers(t *testing.T) {
	t.Helper()
	for round := range 3 {
		from := c.leader(t)
		to := (from + 1) % 3
		before, err := c.drivers[from].Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := TransferRequest{ExpectedLeader: c.names[from], Candidates: []string{c.names[to], c.names[(from+2)%3]}}
		if round > 0 { // the other candidate needs no preparation
			if r, err = Prepare(t.Context(), c.drivers[from], r); err != nil {
				t.Errorf("round %d: prepare: %v", round, err)
			}
		}
		start := time.Now()
		got, err := c.drivers[from].Transfer(t.Context(), r)
		took := time.Since(start)
		if err != nil {
			t.Fatalf("round %d: transfer: %v", round, err)
		}
		t.Logf("transfer %s to %s: %s", c.names[from], got.Leader, took.Round(time.Millisecond))
		if !got.Moved || got.Leader != c.names[to] || got.Epoch <= before.Epoch {
			t.Errorf("round %d: transfer = %+v, want move to %s beyond epoch %d", round, got, c.names[to], before.Epoch)
		}
		start = time.Now()
		if err := c.drivers[from].Drain(t.Context()); err != nil {
			t.Errorf("round %d: drain: %v", round, err)
		}
		t.Logf("drain %s: %s", c.names[from], time.Since(start).Round(time.Millisecond))
		again, err := c.drivers[from].Transfer(t.Context(), r)
		if err != nil || again.Moved || again.Leader != c.names[to] {
			t.Errorf("round %d: second transfer = %+v, %v; want no move and leader %s", round, again, err, c.names[to])
		}
		start = time.Now()
		within(t, c.settle, "settle after transfer", c.healthy)
		t.Logf("settled after %s", time.Since(start).Round(time.Millisecond))
	}
}

func (c *realCluster) survivesRestart(t *testing.T) {
	t.Helper()
	at := (c.leader(t) + 1) % 3
	c.procs[at].stop()
	v, err := c.drivers[at].Observe(t.Context())
	if err != nil || v.Liveness == LivenessAlive || v.MayDisrupt || v.CaughtUp != nil {
		t.Errorf("observe of a stopped member = %+v, %v; want a view that says it is not alive", v, err)
	}
	c.procs[at].start()
	start := time.Now()
	within(t, c.settle, "take the member back", c.healthy)
	t.Logf("member back after %s", time.Since(start).Round(time.Millisecond))
}

// dumpLogs shows the members' last lines when the test failed.
func (c *realCluster) dumpLogs(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for i, p := range c.procs {
			f, err := os.Open(p.log)
			if err != nil {
				continue
			}
			data, _ := io.ReadAll(f)
			_ = f.Close()
			lines := strings.Split(string(data), "\n")
			t.Logf("%s:\n%s", c.names[i], strings.Join(lines[max(0, len(lines)-25):], "\n"))
		}
	})
}
