package world

import (
	"fmt"

	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// point is where the process of an agent may die: right after something that it did, or that it was told.
// What it does from then on has no effect.
func (r *worker) point(w *World, c *cvm, after string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.armed <= 0 || c.worker != r || r.gone.Load() {
		return
	}
	if c.armed--; c.armed == 0 {
		w.noteLocked(trace.Event{Kind: trace.Faulted, By: "fault", Text: fmt.Sprintf("the agent of %s dies after %s", c.slot, after)})
		r.die()
	}
}

// pointsAhead bounds how many points an agent that is armed passes before the one that it dies at.
const pointsAhead = 12

// armAgent has a member's agent die at one of the next points of its work.
func (w *World) armAgent(f plan.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.cvmLocked(f.Target); c != nil {
		c.armed = 1 + int(w.drawLocked("agent point "+f.Target, pointsAhead))
	}
}
