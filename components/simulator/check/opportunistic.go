package check

import (
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// opportunistic: where members take what a spec asks for only when something else touches them, no
// rollout takes one away that is well. What is down is brought back with it.
func opportunistic(s *state, e trace.Event) []string {
	op := s.disrupts(e)
	if op == nil || op.Kind != operation.Update || op.Actor != operation.ActorRollout || op.Request.ID != "" || s.mayBeDown(op.Slot) || s.silent(op.Slot) || s.wasDown(op) {
		return nil
	}
	for _, sp := range s.specsOf(op.Group) {
		if sp == nil || sp.UpdatePolicy.Type != group.Opportunistic {
			return nil
		}
	}
	return wrong("%s takes %s away, and updates are %s", op.ID, op.Slot, group.Opportunistic)
}
