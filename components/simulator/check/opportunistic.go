package check

import (
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// opportunistic: where members take a new spec only together with another change, no rollout takes
// a healthy member away. A down member is brought back with the new spec.
func opportunistic(s *state, e trace.Event) []string {
	op := s.disrupts(e)
	if op == nil || !s.rollsHealthy(op) {
		return nil
	}
	for _, sp := range s.specsOf(op.Group) {
		if sp == nil || sp.UpdatePolicy.Type != group.Opportunistic {
			return nil
		}
	}
	return wrong("%s takes %s away, and updates are %s", op.ID, op.Slot, group.Opportunistic)
}

// ofRollout: op is a step of a rollout, made automatically.
func ofRollout(op *operation.Operation) bool {
	return op.Actor == operation.ActorRollout && op.Kind.Rolls(op.Actor)
}

// rollsHealthy: op is a step of a rollout that no operator requested, of a member that surely serves.
func (s *state) rollsHealthy(op *operation.Operation) bool {
	return ofRollout(op) && op.Request.ID == "" && !s.mayBeDown(op.Slot) && !s.silent(op.Slot) && !s.wasDown(op)
}
