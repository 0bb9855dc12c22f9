package rollout

import (
	"cadre.dev/core/group"
)

// holdsOfReplace: the disk is lost, so the group must bear it and somebody must have
// the data (R46, R136). Of a workload that no driver knows, the operator's word counts, or
// that of the spec.
func (w *world) holdsOfReplace(c candidate, l look) []Hold {
	var holds []Hold
	for _, replacing := range [][]*member{w.tally.replacing, l.taken.replacing} {
		if m := otherThan(c.m, replacing); m != nil {
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
		holds = append(holds, hold(HoldQuorumUnknown, "who votes is not known: %s", orWord(w.view.votersDoubt, "no member tells")))
	default:
		if left := w.healthyWithout(c.m, l.taken); len(left) < group.Quorum(v) {
			holds = append(holds, hold(HoldQuorum, "%s", quorumText(c.m.slot, left, v)))
		}
	}
	return holds
}

// dataElsewhere: another member is available and has caught up.
func (w *world) dataElsewhere(m *member) bool {
	for _, other := range w.members {
		if other != m && other.available && other.report != nil && caughtUp(other.report) {
			return true
		}
	}
	return false
}
