package rollout

import (
	"cmp"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// holdsOfReplace: a rollout replaces members within its budget. In all other cases the disk is lost, so the group must tolerate the loss and another member must have the data (R46,
// R136). For a workload without a driver, the operator's request or the spec decides.
func (w *world) holdsOfReplace(c candidate, l evaluation) []Hold {
	var holds []Hold
	for _, replacing := range [][]*member{w.tally.replacing, l.taken.replacing} {
		if m := w.replacedBefore(c, l, replacing); m != nil && !c.rolls() {
			holds = append(holds, hold(HoldReplaceInProgress, "waits for the replacement of %s", m.slot))
		}
	}
	if group.HasDriver(w.spec) && !w.dataElsewhere(c.m) {
		holds = append(holds, hold(HoldNoSource,
			"no other member is available and caught up, so nobody is known to have what %s would be rebuilt from", c.m.slot))
	}
	if !w.view.voting || group.ChangesSet(w.spec) {
		return holds // holdsOfSet
	}
	v := len(w.view.voters)
	switch {
	case w.view.votersDoubt != "" || v == 0:
		holds = append(holds, hold(HoldQuorumUnknown, "who votes is not known: %s", cmp.Or(w.view.votersDoubt, "no member tells")))
	default:
		if left := w.healthyWithout(c.m, l.taken); len(left) < group.Quorum(v) {
			holds = append(holds, hold(HoldQuorum, "%s", quorumText(c.m.slot, left, v)))
		}
	}
	return holds
}

// replacedBefore returns the first replacement that c waits for, or nil. A voter that keeps the new CVMs of others out
// of the set waits for none until it is out. Among several members that are out, the member whose calls began goes on,
// and otherwise the first member.
func (w *world) replacedBefore(c candidate, l evaluation, replacing []*member) *member {
	if w.outFirst(c.m) {
		return nil
	}
	begun, after := l.op != nil && l.op.Call.Number > 0, false
	for _, other := range replacing {
		if other == c.m {
			after = true // the later members wait for c
			continue
		}
		if op := other.open; op != nil && op.Call.Outcome == operation.OutcomeRefused {
			continue // the refused replacement may never go on
		}
		called := other.open != nil && other.open.Call.Number > 0
		if l.op == nil || called && !begun || called == begun && !after {
			return other
		}
	}
	return nil
}

// dataElsewhere: another member is available and caught up.
func (w *world) dataElsewhere(m *member) bool {
	return slices.ContainsFunc(w.members, func(other *member) bool {
		return other != m && other.available && other.report != nil && caughtUp(other.report)
	})
}
