package check

import (
	"slices"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// disks is I23: with a CVM goes its disk. A call deletes one only for an Operation that names
// that CVM and says so: a Delete of a Slot that is not wanted, whose group is being deleted or
// whose disk an operator gave up and the spec does not preserve; or a Replace that an operator
// asked for, or whose spec says that healing may.
func disks(s *state, e trace.Event) []string {
	if e.Kind != trace.Called || e.Call.Verb != cloud.Delete {
		return nil
	}
	m := s.member(e.Slot)
	op := m.acting()
	switch {
	case op == nil:
		return wrong("call %d deletes the CVM of %s: no Operation says so", e.Call.ID, e.Slot)
	case op.VMUUID == "" || op.VMUUID != e.Call.VMUUID:
		return wrong("call %d deletes CVM %s: %s names %q", e.Call.ID, e.Call.VMUUID, op.ID, op.VMUUID)
	case op.Kind == operation.Replace && op.Request == "" && !s.healsByReplacing(op):
		return wrong("call %d deletes the CVM of %s to replace it, and nobody asked for that", e.Call.ID, e.Slot)
	case op.Kind == operation.Replace:
		return nil
	case op.Kind != operation.Delete:
		return wrong("call %d deletes the CVM of %s for the %s %s", e.Call.ID, e.Slot, op.Kind, op.ID)
	}
	if why := s.keepsDisk(op); why != "" {
		return wrong("call %d deletes the CVM of %s: %s", e.Call.ID, e.Slot, why)
	}
	return nil
}

// healsByReplacing: op heals its Slot, and a spec in force says that the disk may go for that.
func (s *state) healsByReplacing(op *operation.Operation) bool {
	_, ordinal, err := group.ParseSlot(op.Slot)
	for _, sp := range s.specsOf(op.Group) {
		h := sp.AutoHealing
		if err == nil && op.Actor == operation.ActorHealing && h != nil && h.Replace == group.ReplaceAuto && sp.PreservedDisk(ordinal) == "" {
			return true
		}
	}
	return false
}

// lacks: the workload told who belongs to its set, and the Slot does not. What is on its disk serves
// nobody then.
func (g *groupState) lacks(slot string) bool {
	return g.set && !slices.Contains(g.voters, slot) && !slices.Contains(g.learners, slot)
}

// keepsDisk is why the disk of the Slot that op deletes is to be kept; "" where it is not.
func (s *state) keepsDisk(op *operation.Operation) string {
	if s.ending(op.Group) {
		return ""
	}
	sp := s.spec(op.Group)
	_, ordinal, err := group.ParseSlot(op.Slot)
	switch {
	case !s.condemned(op.Group, op.Slot) && (!op.Leaves || !s.group(op.Group).lacks(op.Slot)):
		return "the Slot is wanted"
	case sp != nil && err == nil && sp.PreservedDisk(ordinal) != "":
		return "the spec preserves its disk"
	case op.Leaves && s.group(op.Group).lacks(op.Slot):
		return "" // given up when it was told to leave
	case s.extra(op.Slot):
		return "" // nobody needs what is on it
	case !s.switched("control/delete-disks/" + op.Group):
		return "nobody gave its disk up"
	}
	return ""
}
