package check

import (
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// leaderLast is I3: the Slot that leads the workload starts its update after all other moved Slots
// run the target. No step acts on it while it still leads, unless its drain's time is over. Recent
// leadership, which a coordinator may not know, does not count. Neither does a down leader, nor a
// leader without a possible successor.
func leaderLast(s *state, e trace.Event) []string {
	if op := s.disrupts(e); op != nil && s.leads(op) {
		if slot := s.outdatedBeside(op); slot != "" {
			return wrong("%s takes %s away, which leads, before %s runs the target", op.ID, op.Slot, slot)
		}
	}
	op := s.acts(e)
	if op == nil || !s.leads(op) || overtime(op) {
		return nil
	}
	return wrong("%s acts on %s, which leads: nobody took over, and the drain's time is not over", op.ID, op.Slot)
}

// leads reports that op is about a Slot that certainly leads, while others could lead.
func (s *state) leads(op *operation.Operation) bool {
	g, sp := s.group(op.Group), s.spec(op.Group)
	known := g.leader == op.Slot && s.now-g.ledAt > EvidenceAge && s.member(op.Slot).serves()
	if op.Kind == operation.Create || !known || sp == nil || !group.HasDriver(*sp) || s.ending(op.Group) {
		return false
	}
	return slices.ContainsFunc(s.slots(), func(m *member) bool {
		// A member to be removed is no heir that a rollout counts on, but may be the only one left.
		// It is none once it is out of the set. A coordinator may not know a recent member yet.
		came := m.serves() && s.now-m.changed <= EvidenceAge
		return m.slot != op.Slot && m.group == op.Group && m.ever && !came && !g.lacks(m.slot) && (m.serves() || op.Kind != operation.Delete)
	})
}

// outdatedBeside is another Slot of an update's rollout that does not run its target; "" where
// there is none. It applies to updates that were planned with a hand-over. Other updates did not
// know that the Slot leads, and must not act on it anyway.
func (s *state) outdatedBeside(op *operation.Operation) string {
	planned := op.Transfer != nil && !op.Transfer.Relief
	if planned && op.Transfer.Interim && s.extra(op.Slot) {
		return "" // the others wait until it has proven the target
	}
	if !op.Kind.Rolls(op.Actor) || !planned || op.Actor == operation.ActorOperator {
		return ""
	}
	sp, to := s.spec(op.Group), op.To
	if _, ordinal, err := group.ParseSlot(op.Slot); err == nil && sp.Instance(ordinal).PinnedRevision != "" {
		to = sp.Revision() // its target is its own, and not the target of the others
	}
	for _, slot := range sp.Members() {
		if s.group(op.Group).lacks(slot) {
			continue // it was lost: no voter, and no heir that could run the target first
		}
		if s.toleratesFailed(sp, op.Rollout, slot) {
			continue
		}
		if a := s.member(slot).admission; slot != op.Slot && a != nil && a.Revision != to && inScope(sp, slot) && !s.mayBeExcluded(slot) {
			return slot
		}
	}
	return ""
}

// toleratesFailed: a step of the Slot failed in the rollout, which max_failed may tolerate (R100).
func (s *state) toleratesFailed(sp *group.Spec, rollout, slot string) bool {
	if sp.UpdatePolicy.MaxFailed == 0 {
		return false
	}
	for _, op := range s.operations {
		if op.Slot == slot && op.Rollout == rollout && op.Phase == operation.Failed {
			return true
		}
	}
	return false
}

// overtime: op acts after the time for its drain, by its own record.
func overtime(op *operation.Operation) bool {
	return !op.Times.DrainBy.IsZero() && !op.Entered[operation.Acting].Before(op.Times.DrainBy)
}
