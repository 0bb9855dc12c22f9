package check

import (
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// budget is I1. It holds when an Operation starts to take a member away, and again when the
// Operation goes on to its call. At most max_unavailable members are away then, including the
// member itself.
//
// A member is away from the first phase that takes it until it serves again, or while it is down
// for another reason for longer than EvidenceAge. Each serving extra member permits one more,
// because the group still has its full number. A group with max_unavailable 0 still repairs a
// member whose agent has been silent for long, healthy or not. The repair of a down member takes
// nothing more away. An unwanted member counts as no loss.
func budget(s *state, e trace.Event) []string {
	op := s.takes(e)
	if op == nil || s.mayBeDown(op.Slot) || s.unwanted(op.Group, op.Slot) || s.wasDown(op) {
		return nil
	}
	var message []string
	for _, sp := range s.specsOf(op.Group) {
		if group.MaxUnavailable(*sp) == 0 && s.silent(op.Slot) {
			return nil // it is repaired all the same
		}
		others, limit, spare := s.othersAway(sp, op.Slot), group.MaxUnavailable(*sp), s.spare(sp)
		if len(others)+1 <= limit+spare {
			return nil
		}
		message = wrong("%s takes %s away while %s: max_unavailable is %d, and %d extra ones serve", op.ID, op.Slot, away(others), limit, spare)
	}
	return message
}

// wasDown reports that op was to repair a down member and has begun. A member that comes back
// meanwhile does not cancel op.
func (s *state) wasDown(op *operation.Operation) bool {
	before := s.operations[op.ID]
	return op.Before.Unavailable && before != nil
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

// spare is the number of extra members of the group that serve.
func (s *state) spare(sp *group.Spec) (n int) {
	for _, m := range s.slots() {
		if m.group == sp.Name && s.extra(m.slot) && !slices.Contains(sp.Members(), m.slot) && !m.away && s.mayServe(m.slot) {
			n++
		}
	}
	return n
}

// extra reports that the Slot exists for a rollout only.
func (s *state) extra(slot string) bool {
	bound := s.member(slot).bound
	return bound != nil && bound.Extra
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
