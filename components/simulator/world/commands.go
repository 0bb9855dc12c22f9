package world

import (
	"context"
	"errors"
	"time"

	agent "cadre.dev/agent/simulated"
	"cadre.dev/core/group"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// commands restarts a service of an agent's CVM, and runs its hooks.
type commands struct {
	w *World
	c *cvm
	r *worker
}

var (
	_ agent.Commands = (*commands)(nil)
	_ agent.Checks   = (*commands)(nil)
)

const (
	// hookLimit is the longest duration of a hook, hookTakes the duration of a successful hook.
	hookLimit = 45 * time.Second
	hookTakes = 500 * time.Millisecond
)

var errHook = errors.New("the command ended with code 1")

// RunUntil runs a hook, which may be slow, fail or hang.
func (m *commands) RunUntil(ctx context.Context, a group.ExecAction, _ []string, _ time.Duration) error {
	if a.Command == launch {
		defer m.launched()
	}
	m.r.point(m.w, m.c, "a hook began")
	defer m.r.point(m.w, m.c, "a hook ended")
	f := m.w.fateIn("hook "+m.c.slot, func(o plan.Odds) float64 { return o.Hook })
	switch {
	case f.silent:
		<-ctx.Done()
		return context.Cause(ctx)
	case !pause(ctx, hookTakes+2*f.slow):
		return context.Cause(ctx)
	case f.refused:
		return errHook
	}
	return nil
}

// launched records that a post-launch hook ended, with any result, or that its time was over.
func (m *commands) launched() {
	w, c := m.w, m.c
	w.mu.Lock()
	defer w.mu.Unlock()
	if !m.r.gone.Load() && c.boot == m.r.boot {
		w.noteLocked(trace.Event{Kind: trace.Launched, By: c.slot, Group: c.group(), Slot: c.slot, Boot: c.boot})
	}
}

// deepTakes is the duration of the command "deep": two of its results exist after min_ready.
const deepTakes = 3 * time.Second

// Run is the command of a check: it reports the health of the workload.
func (m *commands) Run(ctx context.Context, a group.ExecAction, _ []string, _ time.Duration) error {
	if a.Command == deep && !pause(ctx, deepTakes) {
		return context.Cause(ctx)
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	switch {
	case m.r.gone.Load() || m.c.boot != m.r.boot:
		return errGone
	case m.c.ill():
		return errIll
	}
	return nil
}

var errIll = errors.New("the workload is not well")

// decides is how often an operator checks the hooks that hold a step.
const decides = 30 * time.Second

// decide ends the hooks of a process that hold a step, as an operator does after a while.
func (w *World) decide(ctx context.Context, c *cvm, r *worker) {
	for pause(ctx, decides) {
		for _, h := range r.agent.Hooks() {
			odds, chance := w.odds("person " + c.slot)
			switch {
			case h.State != agent.HookHeld || chance.IntN(3) == 0:
			case chance.Float64() < odds.Hook:
				r.agent.Complete(h.Name, h.Token, group.HookAbandon)
			default:
				r.agent.Complete(h.Name, h.Token, group.HookContinue)
			}
		}
	}
}

// startTakes is the start time of the workload in a CVM that stays.
const startTakes = 2 * time.Second

// Restart ends the workload, which starts again even if the agent dies meanwhile.
func (m *commands) Restart(ctx context.Context, _ string) error {
	w, c := m.w, m.c
	defer m.r.point(w, c, "a restart of a service")
	w.mu.Lock()
	if m.r.gone.Load() || c.boot != m.r.boot {
		w.mu.Unlock()
		return errGone
	}
	c.starting = true
	w.standLocked(c.group(), restarted)
	w.mu.Unlock()
	time.AfterFunc(startTakes, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if c.boot == m.r.boot {
			c.starting, c.hung = false, false
			w.standLocked(c.group(), restarted)
		}
	})
	if !pause(ctx, startTakes) {
		return context.Cause(ctx)
	}
	return nil
}
