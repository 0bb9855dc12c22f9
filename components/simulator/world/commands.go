package world

import (
	"context"
	"time"

	agent "cadre.dev/agent/simulated"
	"cadre.dev/core/group"
)

// commands is how an agent restarts a service of its CVM, and runs its hooks.
type commands struct {
	w *World
	c *cvm
	r *worker
}

var _ agent.Commands = (*commands)(nil)

// RunUntil runs a hook.
func (*commands) RunUntil(context.Context, group.ExecAction, []string, time.Duration) error {
	return nil
}

// startTakes is how long the workload of a CVM that stays takes to start.
const startTakes = 2 * time.Second

// Restart ends the workload. It starts anew whatever becomes of the agent.
func (m *commands) Restart(ctx context.Context, _ string) error {
	w, c := m.w, m.c
	w.mu.Lock()
	if m.r.gone.Load() || c.boot != m.r.boot {
		w.mu.Unlock()
		return errGone
	}
	booting := c.booting
	c.starting = true
	w.standLocked(c.group(), restarted)
	w.mu.Unlock()
	time.AfterFunc(startTakes, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if c.booting == booting {
			c.starting, c.hung = false, false
			w.standLocked(c.group(), restarted)
		}
	})
	if !pause(ctx, startTakes) {
		return context.Cause(ctx)
	}
	return nil
}
