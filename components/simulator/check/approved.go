package check

import (
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// approved: in a group whose spec requires approvals, nothing leads to an unapproved Revision. No
// Operation comes to its call for it, and no Boot of it is admitted.
func approved(s *state, e trace.Event) []string {
	if op := s.acts(e); op != nil && op.Kind != operation.Delete && op.Kind != operation.Restart && s.unapproved(op.Group, op.To) {
		return wrong("%s leads %s to %.12s, which nobody approved", op.ID, op.Slot, op.To)
	}
	if a := e.Admission; e.Kind == trace.Committed && a != nil && !e.Deleted && s.unapproved(a.Group, a.Revision) {
		return wrong("%s of %s is let in at %.12s, which nobody approved", a.BootID, a.Slot, a.Revision)
	}
	return nil
}

// unapproved: every spec that a decision may rest on requires an approval, and there is none.
func (s *state) unapproved(name, revision string) bool {
	if s.switched("control/approvals/" + revision) {
		return false
	}
	all := s.specsOf(name)
	for _, sp := range all {
		if sp == nil || !sp.UpdatePolicy.RequireApproval {
			return false
		}
	}
	return len(all) > 0
}
