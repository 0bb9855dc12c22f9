package check

import (
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// blameless are the causes of a verdict that say nothing about a Revision.
var blameless = []operation.Cause{
	operation.CauseDrainDeadline, operation.CauseUnsafe, operation.CausePrecondition, operation.CauseRefused, operation.CauseTask,
	operation.CauseReplaced, operation.CauseVanished, operation.CauseResolved, operation.CauseUndecided,
}

// rolledBack is R101. Where a rollback leads to is under I8, "approved" and I9 as each step is.
func rolledBack(t trace.Trace) []Violation {
	var f findings
	walk(t, func(s *state, i int, e trace.Event) {
		switch {
		case e.Kind == trace.Settled:
			s.restsBack(e, func(format string, args ...any) { f.add(i, format, args...) })
		case e.Kind != trace.Committed || e.Deleted:
		case e.Term != 0 && e.Key == store.GroupSpecKey(e.Group) && e.Group != "":
			f.add(i, "a leader writes the spec of %s", e.Group)
		case e.Rollout != nil:
			if why := s.wrongBack(e.Rollout); why != "" {
				f.add(i, "rollout %s %s", e.Rollout.ID, why)
			}
		case e.Operation != nil && s.operations[e.Operation.ID] == nil:
			op := e.Operation
			r := s.rolloutAfter(t, i, op.Rollout)
			if r != nil && ofRollout(op) && op.To == r.To && r.Goal() != r.To {
				f.add(i, "%s leads %s to %.12s, which its rollout left", op.ID, op.Slot, op.To)
			}
		}
	})
	return f
}

// wrongBack names the fault of the rollback in a record of a rollout; "": none.
func (s *state) wrongBack(r *operation.Rollout) string {
	was, back := (*operation.Back)(nil), r.Back
	if before := s.rollouts[r.ID]; before != nil {
		was = before.Back
	}
	asks := func(sp *group.Spec) bool { return sp != nil && sp.UpdatePolicy.OnFailure == group.Rollback }
	switch {
	case was == nil && back == nil:
	case back == nil:
		return "forgets its rollback"
	case was != nil && (was.Revision != back.Revision || !was.Since.Equal(back.Since) || was.Over && !back.Over):
		return "goes back a second time"
	case was != nil:
	case back.Revision == r.To || back.Revision == "":
		return "goes back to its own Revision"
	case back.Verdict.Cause == "" || slices.Contains(blameless, back.Verdict.Cause):
		return "goes back without evidence: " + string(back.Verdict.Cause)
	case !slices.ContainsFunc(s.specsOf(r.Group), asks):
		return "goes back, and no spec asks for that"
	}
	return ""
}

// restsBack: at rest, members of a group that went back run the Revision of the rollback.
func (s *state) restsBack(e trace.Event, wrong func(format string, args ...any)) {
	for _, sp := range s.wanted() {
		r := s.rollouts[e.Waiting[sp.Name].Rollout]
		if r == nil || r.State != operation.RolledBack {
			continue
		}
		for _, slot := range sp.Members() {
			m := s.member(slot)
			if m.serves() && inScope(sp, slot) && m.admission != nil && m.admission.Revision != r.Goal() {
				wrong("%s runs %.12s, and its group went back to %.12s", slot, m.admission.Revision, r.Goal())
			}
		}
	}
}
