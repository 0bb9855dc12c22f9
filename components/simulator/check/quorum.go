package check

import (
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// quorum is I2: a voter that is healthy is taken away only where the healthy voters without it
// are a majority of all, when that begins and when its call is made. Voters are those that the workload's set lists, whether they run or not;
// where it never told, the members that have joined. One that went down so lately that nobody may
// know it counts as healthy. One that is removed or makes way for another CVM is to be out of its set
// first, or not to be missed in it; with its group every voter goes. A single voter cannot be spared and is interrupted, as one of two is where the spec
// allows it. One that serves between two parts of its change votes, and is judged again at its next call.
func quorum(s *state, e trace.Event) []string {
	op := s.takes(e)
	if op == nil || s.mayBeDown(op.Slot) || s.ending(op.Group) {
		return nil
	}
	var message []string
	for _, sp := range s.specsOf(op.Group) {
		if sp == nil {
			return nil // the group is none
		}
		voters := s.voters(sp)
		left := slices.DeleteFunc(slices.Clone(voters), func(slot string) bool {
			m := s.member(slot)
			return slot == op.Slot || m.away && !m.between() || !s.mayServe(slot)
		})
		if s.maySpare(sp, op.Slot, voters) || s.leavesFirst(op, len(left), len(voters)) || len(left) >= group.Quorum(len(voters)) {
			return nil
		}
		message = wrong("%s takes %s away, which leaves %d of %d voters: %d are needed", op.ID, op.Slot, len(left), len(voters), group.Quorum(len(voters)))
	}
	return message
}

// leavesFirst reports that op's member, which is removed or makes way for another CVM, is out of its
// set before it is away, or right after: it votes for that, and those that are left are a majority of themselves.
func (s *state) leavesFirst(op *operation.Operation, left, voters int) bool {
	goes := op.Kind == operation.Replace || op.Kind == operation.Delete
	return goes && s.group(op.Group).set && left+1 >= group.Quorum(voters) && left >= group.Quorum(voters-1)
}

// maySpare reports that no majority rests on the Slot, or that the spec bears its interruption.
func (s *state) maySpare(sp *group.Spec, slot string, voters []string) bool {
	switch {
	case !slices.Contains(voters, slot) || len(voters) == 1:
		return true
	case len(voters) == 2:
		return sp.UpdatePolicy.Interruption == group.InterruptionAllow
	}
	return false
}

// setChanges is I2 for the set itself: those that are left when a voter is taken out are a
// majority of themselves. And one member comes or goes at a time: none is listed while another
// has no vote yet, and no voter that is healthy is taken out or away then. One whose agent nobody heard
// for long is repaired all the same: the other one may not get its vote while it counts as down.
func setChanges(s *state, e trace.Event) []string {
	if op := s.disrupts(e); op != nil {
		g := s.group(op.Group)
		waits := len(g.learners) > 0 && s.now-g.learnAt > EvidenceAge && !slices.Contains(g.learners, op.Slot)
		if waits && slices.Contains(g.voters, op.Slot) && !s.mayBeDown(op.Slot) && !s.silent(op.Slot) && !s.ending(op.Group) {
			return wrong("%s takes %s away while %v came and has no vote yet", op.ID, op.Slot, g.learners)
		}
	}
	if e.Kind != trace.Listed || !s.group(e.Group).set {
		return nil
	}
	before := s.group(e.Group)
	missing := func(from []string, in ...string) []string {
		return slices.DeleteFunc(slices.Clone(from), func(slot string) bool { return slices.Contains(in, slot) })
	}
	if came := missing(e.Learners, before.learners...); len(came) > 0 && len(before.learners) > 0 {
		return wrong("%v comes while %v has no vote yet", came, before.learners)
	}
	gone := missing(before.voters, e.Voters...)
	if len(gone) == 0 {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(e.Voters), func(slot string) bool { return !s.mayServe(slot) })
	switch needed := group.Quorum(len(e.Voters)); {
	case len(left) < needed:
		return wrong("%v is taken out of the set, which leaves %d of %d voters well: %d are needed", gone, len(left), len(e.Voters), needed)
	case len(before.learners) > 0 && s.now-before.learnAt > EvidenceAge && s.member(gone[0]).serves() && !s.silent(gone[0]):
		return wrong("%v is taken out of the set while %v has no vote yet", gone, before.learners)
	}
	return nil
}

// voters are those of the set, where the workload votes.
func (s *state) voters(sp *group.Spec) []string {
	if !group.HasVoters(*sp) {
		return nil
	}
	if g := s.group(sp.Name); g.set {
		return g.voters
	}
	return slices.DeleteFunc(sp.Members(), func(slot string) bool { return !s.member(slot).ever })
}
