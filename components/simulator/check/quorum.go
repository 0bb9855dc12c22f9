package check

import (
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/simulator/trace"
)

// quorum is I2: a voter that is healthy is taken away only where the healthy voters without it
// are a majority of all. Voters are the members that have joined of a group whose workload
// votes among its members; one that went down so lately that nobody may know it counts as
// healthy. A single voter cannot be spared and is interrupted, as one of two is where the spec
// allows it.
func quorum(s *state, e trace.Event) []string {
	op := s.disrupts(e)
	if op == nil || s.mayBeDown(op.Slot) || s.condemned(op.Group, op.Slot) {
		return nil
	}
	var message []string
	for _, sp := range s.specsOf(op.Group) {
		voters := s.voters(sp)
		left := slices.DeleteFunc(slices.Clone(voters), func(slot string) bool {
			return slot == op.Slot || s.member(slot).away || s.down(slot)
		})
		if s.maySpare(sp, op.Slot, voters) || len(left) >= group.Quorum(len(voters)) {
			return nil
		}
		message = wrong("%s takes %s away, which leaves %d of %d voters: %d are needed", op.ID, op.Slot, len(left), len(voters), group.Quorum(len(voters)))
	}
	return message
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

// voters are the members that have joined, where the workload votes.
func (s *state) voters(sp *group.Spec) []string {
	if !group.HasVoters(*sp) {
		return nil
	}
	return slices.DeleteFunc(sp.Members(), func(slot string) bool { return !s.member(slot).ever })
}
