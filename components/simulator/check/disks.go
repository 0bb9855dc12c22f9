package check

import (
	"slices"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// disks is I23: deleting a CVM deletes its disk. A call does so only for an Operation that names
// that CVM. A Delete needs an unwanted Slot. Its group is being deleted, or an operator gave the
// disk up by the Slot's name and the spec does not preserve it. A Replace needs an operator's
// request with the disk, or a spec that permits healing to do so.
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
	case op.Kind == operation.Replace && op.Request.ID == "" && !s.mayReplace(op):
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

// mayReplace: op heals its Slot, or is a step of a rollout that replaces its members, and a spec in force permits that
// to delete the disk.
func (s *state) mayReplace(op *operation.Operation) bool {
	_, ordinal, err := group.ParseSlot(op.Slot)
	for _, sp := range s.specsOf(op.Group) {
		if sp == nil {
			continue // the group did not exist then
		}
		h := sp.AutoHealing
		heals := op.Actor == operation.ActorHealing && h != nil && h.Replace == group.ReplaceAuto
		rolls := op.Actor == operation.ActorRollout && sp.UpdatePolicy.MinimalAction == group.ActionReplace
		if err == nil && (heals || rolls) && sp.PreservedDisk(ordinal) == "" {
			return true
		}
	}
	return false
}

// lacks: the workload reported its set, and the Slot is not in it. The content of its disk is
// useless then.
func (g *groupState) lacks(slot string) bool {
	return g.set && !slices.Contains(g.voters, slot) && !slices.Contains(g.learners, slot)
}

// askedFor: the request that op names asks for another CVM in its Slot, and gives the disk up.
func (s *state) askedFor(op *operation.Operation) bool {
	q := s.asked[op.Request.ID]
	return q != nil && q.Kind == store.RequestReplace && q.DeleteDisk && q.Slot == op.Slot
}

// keepsDisk is why the disk of the Slot that op deletes must be kept; "" where it need not be. For
// a member that was ordered to leave its set, and left, that was judged at the order.
func (s *state) keepsDisk(op *operation.Operation) string {
	if ends := s.endings[op.Group]; s.ending(op.Group) && ends != nil && !ends.KeepCVMs {
		return ""
	}
	sp := s.spec(op.Group)
	_, ordinal, err := group.ParseSlot(op.Slot)
	left := s.left[op.CVM.VMUUID] && s.isOut(op.Group, op.Slot)
	switch {
	case !left && !s.unwanted(op.Group, op.Slot):
		return "the Slot is wanted"
	case s.extra(op.Slot) && !s.wasWanted(op.Group, op.Slot):
		return "" // the disk is useless, and the end of the extra member needs no permission (preserved_state)
	case sp != nil && err == nil && sp.PreservedDisk(ordinal) != "":
		return "the spec preserves its disk"
	case left:
		return ""
	case !s.named(op.Group, op.Slot):
		return "nobody gave its disk up"
	}
	return ""
}

// isOut: the workload's set does not list the Slot, as far as a coordinator may know. A running member
// that was removed may join again, as a learner first.
func (s *state) isOut(groupName, slot string) bool {
	g := s.group(groupName)
	return g.lacks(slot) || slices.Contains(g.learners, slot) && s.now-g.learnAt <= EvidenceAge
}

// named: operators gave up the disk of the Slot, as far as a coordinator may know.
func (s *state) named(groupName, slot string) bool {
	return slices.ContainsFunc(s.givenUp[groupName], func(g givenUp) bool {
		return slices.Contains(g.slots, slot) && (g.until == 0 || s.now-g.until <= EvidenceAge)
	})
}

// wasWanted: a spec had the Slot as a member, with its present CVM, for longer than EvidenceAge.
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
