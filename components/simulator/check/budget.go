package check

import (
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// budget is I1: when an Operation starts to take a member away, and again when it goes on to its call, the members that are away then
// are no more than max_unavailable, it included. A member is away from the first phase that
// takes it until it serves again, or when it is down for another reason for longer than that
// can be unknown. As many more may be away as there are extra members that serve: with them a
// group never has fewer than it is to have. One that may spare nobody still repairs a member whose
// agent nobody heard for long, well or not. To repair one that is down takes nothing more away, and
// one that is not wanted any more is nobody's loss.
func budget(s *state, e trace.Event) []string {
	op := s.takes(e)
	if op == nil || s.mayBeDown(op.Slot) || s.condemned(op.Group, op.Slot) || s.wasDown(op) {
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

// wasDown reports that op was to repair a member that was down, and has begun with that: that its
// member came back meanwhile calls it off no more.
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

// spare are the extra members of the group that serve.
func (s *state) spare(sp *group.Spec) (n int) {
	for _, m := range s.slots() {
		if m.group == sp.Name && s.extra(m.slot) && !slices.Contains(sp.Members(), m.slot) && !m.away && s.mayServe(m.slot) {
			n++
		}
	}
	return n
}

// extra reports that the Slot is there for a rollout only.
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
