package check

import (
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// staged: while a stage of a rollout is open, no more Slots are given the target than the stage lets move. The repair of
// a member that is away, and an operator's request, pass.
func staged(t trace.Trace) []Violation {
	var f findings
	walk(t, func(s *state, i int, e trace.Event) {
		op := s.disrupts(e)
		if op == nil || !ofRollout(op) || op.Before.Unavailable {
			return
		}
		// The stage may be promoted in the transaction of the step.
		for _, message := range s.beyondStage(op, s.rolloutAfter(t, i, op.Rollout)) {
			f.add(i, "%s", message)
		}
	})
	return f
}

// beyondStage is the fault of an update of rollout r that begins beyond its open stage. A Slot that has the target, by a
// replacement on request for example, is given nothing.
func (s *state) beyondStage(op *operation.Operation, r *operation.Rollout) []string {
	own := s.members[op.Slot]
	if r == nil || r.From == "" || r.From == r.To || op.To != r.To || own != nil && own.bound != nil && (own.bound.Extra || own.bound.Assigned == op.To) || s.excludes(op.Group) {
		return nil
	}
	if s.stable[op.Group] == op.To { // the rollout was complete before the group grew
		return nil
	}
	most, specs := 0, s.specsOf(op.Group)
	for _, sp := range specs {
		if sp == nil || r.StagesPassed >= len(sp.UpdatePolicy.Stages) {
			return nil
		}
		most = max(most, sp.UpdatePolicy.Stages[r.StagesPassed].Of(sp.Replicas))
	}
	there := 1
	for _, m := range s.members {
		leaves := func(sp *group.Spec) bool { return !inScope(sp, m.slot) }
		if b := m.bound; m.group == op.Group && m.slot != op.Slot && b != nil && !b.Extra && b.Assigned == op.To && !slices.ContainsFunc(specs, leaves) {
			there++
		}
	}
	if there > most {
		return wrong("%s gives %s the target, as slot %d of it, and stage %d lets %d move", op.ID, op.Slot, there, r.StagesPassed+1, most)
	}
	return nil
}

// excludes: an operator excludes a Slot of the group, or did so until a moment ago. Such a Slot does not count.
func (s *state) excludes(group string) bool {
	prefix := "control/exclude/" + group + "-"
	for key := range s.switches {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	for key, at := range s.cleared {
		if strings.HasPrefix(key, prefix) && s.now-at < EvidenceAge {
			return true
		}
	}
	return false
}

// baked: a rollout that leaves a stable Revision is complete for the first time only at the end of its last bake, as
// the record before says.
func baked(t trace.Trace) []Violation {
	var f findings
	complete := map[string]bool{}
	walk(t, func(s *state, i int, e trace.Event) {
		r := e.Rollout
		if e.Kind != trace.Committed || e.Deleted || r == nil || r.State != operation.Complete || complete[r.ID] {
			return
		}
		complete[r.ID] = true
		was := s.rollouts[r.ID]
		for _, sp := range s.specsOf(r.Group) {
			if sp == nil || sp.UpdatePolicy.Bake == 0 || r.From == "" || r.From == r.To {
				return
			}
			if was == nil || was.State != operation.BakingState || r.EndedAt.Sub(was.BakeSince) < sp.UpdatePolicy.Bake.D() {
				f.add(i, "rollout %s is complete, and its bake of %s was not over", r.ID, sp.UpdatePolicy.Bake)
				return
			}
		}
	})
	return f
}
