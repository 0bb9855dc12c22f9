package check

import (
	"slices"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// disks is I23: with a CVM goes its disk. A call deletes one only for an Operation that names
// that CVM and says so: a Delete of a Slot that is not wanted, whose group is being deleted or
// whose disk an operator gave up by the Slot's name and the spec does not preserve; or a Replace that
// an operator asked for, with its disk, or whose spec says that healing may.
func disks(s *state, e trace.Event) []string {
	if e.Kind != trace.Called || e.Call.Verb != cloud.Delete {
		return nil
	}
	m := s.member(e.Slot)
	op := m.acting()
	switch {
	case op == nil:
		return wrong("call %d deletes the CVM of %s: no Operation says so", e.Call.ID, e.Slot)
	case op.CVM.VMUUID == "" || op.CVM.VMUUID != e.Call.VMUUID:
		return wrong("call %d deletes CVM %s: %s names %q", e.Call.ID, e.Call.VMUUID, op.ID, op.CVM.VMUUID)
	case op.Kind == operation.Replace && op.Request.ID == "" && !s.healsByReplacing(op):
		return wrong("call %d deletes the CVM of %s to replace it, and nobody asked for that", e.Call.ID, e.Slot)
	case op.Kind == operation.Replace && op.Request.ID != "" && !s.askedFor(op):
		return wrong("call %d deletes the CVM of %s to replace it, and %s asks for something else", e.Call.ID, e.Slot, op.Request.ID)
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
		if sp == nil {
			continue // it was none then
		}
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

// askedFor: the request that op names is for another CVM in its Slot, and gives the disk up.
func (s *state) askedFor(op *operation.Operation) bool {
	q := s.asked[op.Request.ID]
	return q != nil && q.Kind == store.RequestReplace && q.DeleteDisk && q.Slot == op.Slot
}

// keepsDisk is why the disk of the Slot that op deletes is to be kept; "" where it is not. Of one
// that was told to leave its set, and left, that was judged then.
func (s *state) keepsDisk(op *operation.Operation) string {
	if ends := s.endings[op.Group]; s.ending(op.Group) && ends != nil && !ends.KeepCVMs {
		return ""
	}
	sp := s.spec(op.Group)
	_, ordinal, err := group.ParseSlot(op.Slot)
	left := s.left[op.CVM.VMUUID] && s.group(op.Group).lacks(op.Slot)
	switch {
	case !left && !s.condemned(op.Group, op.Slot):
		return "the Slot is wanted"
	case s.extra(op.Slot) && !s.wasWanted(op.Group, op.Slot):
		return "" // nobody needs what is on it, and its end says so (preserved_state)
	case sp != nil && err == nil && sp.PreservedDisk(ordinal) != "":
		return "the spec preserves its disk"
	case left:
		return ""
	case !s.named(op.Group, op.Slot):
		return "nobody gave its disk up"
	}
	return ""
}

// named: the Slot is one of those whose disks operators gave up, as far as whoever decides may know.
func (s *state) named(groupName, slot string) bool {
	return slices.ContainsFunc(s.givenUp[groupName], func(g givenUp) bool {
		return slices.Contains(g.slots, slot) && (g.until == 0 || s.now-g.until <= EvidenceAge)
	})
}

// wasWanted: a spec had the Slot as a member, with the CVM that it has now, for so long that
// everybody knew it.
func (s *state) wasWanted(groupName, slot string) bool {
	specs, since := s.group(groupName).specs, s.member(slot).boundAt
	for i, d := range specs {
		until := s.now
		if i+1 < len(specs) {
			until = specs[i+1].from
		}
		if d.spec != nil && slices.Contains(d.spec.Members(), slot) && until-max(d.from, since) > EvidenceAge {
			return true
		}
	}
	return false
}
