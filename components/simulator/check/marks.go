package check

import (
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// marks is R139: a Slot that an operator protects is not taken away, and nothing but its drain
// takes one away that an operator drains. What is down is restarted on its disk all the same
// while it is protected; and with its group every Slot goes.
func marks(s *state, e trace.Event) []string {
	op := s.disrupts(e)
	if op == nil || s.ending(op.Group) {
		return nil
	}
	since, known := s.knownSince("control/protect/" + op.Slot)
	if repair := op.Kind == operation.Restart && s.mayBeDown(op.Slot); known && !repair {
		return wrong("%s takes %s away, which is protected since %s", op.ID, op.Slot, since)
	}
	if since, known = s.knownSince("control/drain/" + op.Slot); known && op.Kind != operation.Drain {
		return wrong("%s takes %s away, which an operator drains since %s", op.ID, op.Slot, since)
	}
	return nil
}
