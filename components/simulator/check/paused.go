package check

import (
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// paused: while an operator has a group paused, no Operation begins to take a member of it away but
// what heals it, and what an operator asks for by a Slot's name. What is under way goes on.
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
