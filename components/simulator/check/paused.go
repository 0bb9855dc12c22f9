package check

import (
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// paused: while an operator has a group paused, no new Operation takes a member of it away. Exempt
// are healing and an operator's request that names a Slot. Steps under way go on.
func paused(s *state, e trace.Event) []string {
	op := s.disrupts(e)
	if op == nil || op.Actor == operation.ActorHealing || op.Actor == operation.ActorOperator || op.Request.ID != "" || s.ending(op.Group) {
		return nil
	}
	name := "control/pause/" + op.Group
	if since, known := s.knownSince(name); known {
		return wrong("%s takes %s away, and %s is set since %s", op.ID, op.Slot, name, since)
	}
	return nil
}
