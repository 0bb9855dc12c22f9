package world

import (
	"fmt"

	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// point is where the process of an agent may die: directly after its own action, or after an order
// arrived. Its later actions have no effect.
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

// pointsAhead bounds the points that an armed agent passes before it dies.
const pointsAhead = 12

// armAgent makes a member's agent die at one of the next points of its work.
func (w *World) armAgent(f plan.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.cvmLocked(f.Target); c != nil {
		c.armed = 1 + int(w.drawLocked("agent point "+f.Target, pointsAhead))
	}
}
