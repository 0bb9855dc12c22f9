package check

import (
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/simulator/trace"
)

// budget is I1: when an Operation starts to take a member away, the members that are away then
// are no more than max_unavailable, it included. A member is away from the first phase that
// takes it until it serves again, or when it is down for another reason for longer than that
// can be unknown. To repair one that is down takes nothing more away, and one that is not
// wanted any more is nobody's loss.
func budget(s *state, e trace.Event) []string {
	op := s.disrupts(e)
	if op == nil || s.mayBeDown(op.Slot) || s.condemned(op.Group, op.Slot) {
		return nil
	}
	var message []string
	for _, sp := range s.specsOf(op.Group) {
		others, limit := s.othersAway(sp, op.Slot), group.MaxUnavailable(*sp)
		if len(others)+1 <= limit {
			return nil
		}
		message = wrong("%s takes %s away while %s: max_unavailable is %d", op.ID, op.Slot, away(others), limit)
	}
	return message
}

// othersAway are the other members of the group that are taken away or down.
func (s *state) othersAway(sp *group.Spec, slot string) []string {
	var out []string
	for _, other := range sp.Members() {
		if other != slot && (s.member(other).away || s.down(other)) {
			out = append(out, other)
		}
	}
	return out
}

func away(others []string) string {
	switch len(others) {
	case 0:
		return "nobody is away"
	case 1:
		return others[0] + " is away"
	}
	return strings.Join(others, ", ") + " are away"
}
