package check

import (
	"slices"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/simulator/trace"
)

// after is I4 (R158): the first creation of a group, and each step of its rollout that is no repair and leads to no
// stable Revision, begin only while each group in its `after` rests at its newest spec, as far as the leader may know.
func after(t trace.Trace) []Violation {
	var f findings
	first, rested := map[string]bool{}, map[string]time.Duration{}
	walk(t, func(s *state, i int, e trace.Event) {
		for name := range first {
			if s.restsAtSpec(name) {
				rested[name] = e.At
			}
		}
		if e.Spec != nil {
			for _, name := range e.Spec.After {
				first[name] = true
			}
		}
		op := e.Operation
		if e.Kind != trace.Committed || e.Deleted || op == nil || s.operations[op.ID] != nil || op.Phase.Ended() || s.ending(op.Group) || s.overridden(op.Group, rollout.HoldAfterGroup) {
			return
		}
		r := s.rolloutAfter(t, i, op.Rollout)
		rolls := ofRollout(op) && op.Request.ID == "" && !op.Before.Unavailable && (r == nil || r.Back == nil)
		if !rolls && (op.Kind != operation.Create || s.hasCVM(op.Group)) {
			return
		}
		for _, name := range s.precedes(op.Group) {
			if at, did := rested[name]; !did || s.now-at > EvidenceAge {
				f.add(i, "%s begins for %s while %s, which goes first, is not at rest", op.ID, op.Slot, name)
			}
		}
	})
	return f
}

// precedes lists the groups that the group is after, by each spec that a decision may rest on.
func (s *state) precedes(name string) (out []string) {
	specs := s.specsOf(name)
	if len(specs) == 0 || specs[0] == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(specs[0].After), func(one string) bool {
		for _, sp := range specs {
			if sp == nil || !slices.Contains(sp.After, one) {
				return true
			}
		}
		return false
	})
}

// restsAtSpec: the newest rollout of the group is over, at the Revision of its spec, and all members serve.
func (s *state) restsAtSpec(name string) bool {
	sp := s.spec(name)
	if sp == nil || !s.allServe(name) {
		return false
	}
	var newest *operation.Rollout
	for _, r := range s.rollouts {
		if r.Group == name && (newest == nil || r.Generation > newest.Generation || r.Generation == newest.Generation && r.Term > newest.Term) {
			newest = r
		}
	}
	over := newest != nil && (newest.State == operation.Complete || newest.State == operation.PartitionReached)
	return over && newest.To == sp.Revision()
}

// hasCVM: a Slot of the group has a CVM, or an open step.
func (s *state) hasCVM(name string) bool {
	return slices.ContainsFunc(s.slots(), func(m *member) bool {
		return m.group == name && (len(m.open) > 0 || m.bound != nil && m.bound.VMUUID != "")
	})
}

// overridden: an operator overrides the hold of the group, or did so until a moment ago.
func (s *state) overridden(name, hold string) bool {
	key := "control/override/" + name + "/" + hold
	cleared, was := s.cleared[key]
	return s.switched(key) || was && s.now-cleared <= EvidenceAge
}
