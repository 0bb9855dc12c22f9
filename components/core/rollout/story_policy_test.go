package rollout_test

import (
	"slices"

	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
)

// prepare has the policy admit the target of a step, before its call.
func (c *coordinator) prepare(op operation.Operation) {
	switch {
	case op.Phase != operation.Drained:
	case op.Kind == operation.Create, op.Kind == operation.Update, op.Kind == operation.Replace:
		if c.provisioning > 0 {
			c.elapse(c.provisioning)
		}
		t := c.store.revisions[op.To].Template
		c.store.policies[op.Slot] = c.store.policies[op.Slot].Moving(op.From, rollout.AllowedAs(op.To, t, c.w.hashOf(t)))
	}
}

// tidy withdraws the Revisions that a Slot may no longer run.
func (c *coordinator) tidy() {
	for slot, p := range c.store.policies {
		if of := c.of(slot); len(of) > 0 && !of[0].Phase.Ended() {
			continue
		}
		running := ""
		if m := c.w.of(slot); m != nil && m.admitted != nil {
			running = m.admitted.Revision
		}
		c.store.policies[slot] = p.Settled(c.store.slots[slot].Assigned, running)
	}
}

// letsIn returns the Revision that a new Boot of c is admitted at. It is the last allowed Revision among the Revisions
// that measure like it. "": no such Revision exists.
func (w *world) letsIn(c *cvm) string {
	for _, a := range slices.Backward(w.policies[c.slot].Allowed) {
		if w.measures(c, a.Revision) {
			return a.Revision
		}
	}
	return ""
}

// allows: a Boot that was admitted at the Revision may stay at it.
func (w *world) allows(slot, revision string) bool {
	return slices.ContainsFunc(w.policies[slot].Allowed, func(a policy.AllowedRevision) bool { return a.Revision == revision })
}
