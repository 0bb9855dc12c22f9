package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/durable"
	"cadre.dev/agent/internal/member"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

const self = "db-0"

// fakeDriver is a small cluster that obeys transfers.
type fakeDriver struct {
	mu        sync.Mutex
	leader    string   // guarded by mu
	epoch     uint64   // guarded by mu
	transfers int      // guarded by mu
	fail      []error  // guarded by mu; of the next transfers
	lost      bool     // guarded by mu; the next transfer works but its answer is lost
	calls     []string // guarded by mu
}

func (d *fakeDriver) Observe(context.Context) (driver.View, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := driver.View{Role: driver.RoleFollower, Liveness: driver.LivenessAlive, Ready: true, Leader: d.leader, Epoch: d.epoch}
	if d.leader == self {
		v.Role = driver.RoleLeader
	}
	return v, nil
}

func (d *fakeDriver) Transfer(_ context.Context, r driver.TransferRequest) (driver.Transferred, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.transfers++
	d.calls = append(d.calls, "transfer")
	if len(d.fail) > 0 {
		err := d.fail[0]
		d.fail = d.fail[1:]
		return driver.Transferred{}, err
	}
	d.leader, d.epoch = r.Candidates[0], d.epoch+1
	if d.lost {
		return driver.Transferred{}, driver.ErrTransient
	}
	return driver.Transferred{Moved: true, Leader: d.leader, Epoch: d.epoch}, nil
}

func (d *fakeDriver) Drain(context.Context) error       { return d.called("drain") }
func (d *fakeDriver) CancelDrain(context.Context) error { return d.called("cancel") }

func (d *fakeDriver) called(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, what)
	return nil
}

func (d *fakeDriver) lead(slot string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leader, d.epoch = slot, d.epoch+1
}

func (d *fakeDriver) did() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.calls, " ")
}

// bench is an executor at work.
type bench struct {
	*Executor
	t      *testing.T
	driver *fakeDriver
	dir    string
	stop   func()
}

func newBench(t *testing.T, dir string, hooks ...group.LifecycleHook) *bench {
	t.Helper()
	b := &bench{t: t, driver: &fakeDriver{leader: "db-1", epoch: 1}, dir: dir}
	log := slog.New(slog.DiscardHandler)
	watcher := member.NewWatcher(log)
	watcher.SetDriver(b.driver)
	var err error
	b.Executor, err = New(Config{
		Slot: self, Disk: durable.OpenDisk(dir, log), Member: watcher, Log: log,
		Hooks: func() []group.LifecycleHook { return hooks }, Commands: fakeCommands{},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = watcher.Run(ctx) })
	wg.Go(func() { _ = b.Run(ctx) })
	b.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(b.stop)
	return b
}

// await waits for a result of key in one of states.
func (b *bench) await(key Key, states ...rollout.StepState) Result {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, r := range b.Results() {
			for _, s := range states {
				if r.Key == key && r.State == s {
					return r
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("%v did not become %v; results %+v", key, states, b.Results())
		}
	}
}

// hook waits until the named hook is open and returns its token.
func (b *bench) hook(name string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	for {
		s, index := b.Status()
		for _, h := range s.Hooks {
			if h.Name == name && h.State == HookOpen {
				return h.Token
			}
		}
		if b.WaitStatus(ctx, index); ctx.Err() != nil {
			b.t.Fatalf("hook %s did not open: %+v", name, s)
		}
	}
}

// fakeCommands acts as the names indicate.
type fakeCommands struct{}

func (fakeCommands) Restart(_ context.Context, service string) error {
	if service != "db" {
		return errors.New("no such service")
	}
	return nil
}

func (fakeCommands) RunUntil(ctx context.Context, a group.ExecAction, env []string, limit time.Duration) error {
	has := func(start string) bool {
		return slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, start) && len(e) > len(start) })
	}
	switch {
	case a.Command == "look" && slices.Contains(env, "CADRE_OPERATION=op") && has("CADRE_HOOK_TOKEN=") && has("CADRE_SLOT=") && limit == time.Hour:
		return nil
	case a.Command == "sleep":
		<-ctx.Done()
		return ctx.Err()
	}
	return errors.New("ended with code 3: no")
}
