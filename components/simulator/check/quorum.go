package check

import (
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// quorum is I2: a healthy voter is taken away only where the other healthy voters are a majority of
// all, both at the start and at the call. Voters are the members in the workload's set, running or
// not. If the set is unknown, they are the members that have joined. A voter that went down within
// EvidenceAge counts as healthy.
//
// A voter that is removed or replaced must first be out of its set, or must not be missed in it.
// The deletion of the group removes every voter. A single voter cannot be spared and is
// interrupted, and so is one of two where the spec allows it. A voter that serves between two parts
// of its change votes, and is judged again at its next call.
func quorum(s *state, e trace.Event) []string {
	op := s.takes(e)
	if op == nil || s.mayBeDown(op.Slot) || s.ending(op.Group) {
		return nil
	}
	var message []string
	for _, sp := range s.specsOf(op.Group) {
		if sp == nil {
			return nil // the group does not exist
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

// leavesFirst reports that op's removed or replaced member is out of its set before it is away, or
// directly after. The member votes for its own removal, and the remaining voters are a majority of
// themselves.
func (s *state) leavesFirst(op *operation.Operation, left, voters int) bool {
	goes := op.Kind == operation.Replace || op.Kind == operation.Delete
	return goes && s.group(op.Group).set && left+1 >= group.Quorum(voters) && left >= group.Quorum(voters-1)
}

// maySpare reports that no majority rests on the Slot, or that the spec permits its interruption.
func (s *state) maySpare(sp *group.Spec, slot string, voters []string) bool {
	switch {
	case !slices.Contains(voters, slot) || len(voters) == 1:
		return true
	case len(voters) == 2:
		return sp.UpdatePolicy.Interruption == group.InterruptionAllow
	}
	return false
}

// setChanges is I2 for the set itself. The voters that remain after a removal are a majority of
// themselves. The set changes by one member at a time. While a listed member has no vote yet, no
// other is added, and no healthy voter is removed or taken away. A voter whose agent has been
// silent for long is repaired all the same: while it counts as down, the other member may not get
// its vote.
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

// voters are the voters of the set, where the workload votes.
func (s *state) voters(sp *group.Spec) []string {
	if !group.HasVoters(*sp) {
		return nil
	}
	if g := s.group(sp.Name); g.set {
		return g.voters
	}
	return slices.DeleteFunc(sp.Members(), func(slot string) bool { return !s.member(slot).ever })
}
