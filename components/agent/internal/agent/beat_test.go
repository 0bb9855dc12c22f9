package agent

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/agent/internal/control"
	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/durable"
	"cadre.dev/agent/internal/health"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/member"
	"cadre.dev/agent/internal/parent"
	"cadre.dev/agent/internal/report"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/raced/synctest"
)

// heart is a parent that counts beats.
type heart struct {
	*alone

	beats atomic.Int64
}

func (h *heart) Beat() error {
	h.beats.Add(1)
	return nil
}

// deaf is a driver that ignores its context.
type deaf struct {
	driver.Driver

	free chan struct{}
}

func (d deaf) Observe(context.Context) (driver.View, error) {
	<-d.free
	return driver.View{Role: driver.RoleNone, Liveness: driver.LivenessAlive, Ready: true}, nil
}

// TestAHangingAgentDoesNotBeat: a lock that is never given back, and a driver that never returns.
func TestAHangingAgentDoesNotBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			h       = &heart{alone: newAlone()}
			log     = slog.New(slog.DiscardHandler)
			lock    = make(chan struct{}, 1) // a lock that virtual time knows
			watcher = member.NewWatcher(log)
			d       = deaf{free: make(chan struct{})}
		)
		disk := durable.OpenDisk(t.TempDir(), log)
		a := &Agent{cfg: Config{Parent: h, Log: log}, member: watcher, disk: disk}
		a.builder = report.NewBuilder(report.Sources{
			AgentSpec: a.config.AgentSpec, Member: watcher.State, Checks: func() []health.Result { return nil }, Epochs: func() map[string]uint32 { return nil },
			Backends: func() []selfreport.State { return nil }, Faults: func() []string { return nil },
			Results: func() []lifecycle.Result { lock <- struct{}{}; <-lock; return nil },
		})
		hub, err := control.New(control.Config{Disk: disk, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		a.hub = hub
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = a.runBeat(ctx) }()
		go func() { _ = watcher.Run(ctx) }()
		beats := func(span time.Duration) int64 {
			before := h.beats.Load()
			time.Sleep(span)
			synctest.Wait()
			return h.beats.Load() - before
		}
		const span = 10 * parent.BeatEvery
		beats(2 * parent.BeatEvery)
		if got := beats(span); got < 5 {
			t.Errorf("%d beats in %v of a process that gets on", got, span)
		}
		watcher.SetDriver(d)
		beats(lookLimit + 2*parent.BeatEvery)
		if got := beats(span); got != 0 {
			t.Errorf("%d beats in %v while an observation of the workload hangs", got, span)
		}
		close(d.free)
		if got := beats(span); got < 5 {
			t.Errorf("%d beats in %v once it ended", got, span)
		}
		lock <- struct{}{}
		beats(2 * parent.BeatEvery)
		if got := beats(span); got != 0 {
			t.Errorf("%d beats in %v while a lock is held", got, span)
		}
		<-lock
		cancel()
		synctest.Wait()
	})
}
