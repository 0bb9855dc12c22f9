package check

import (
	"slices"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/simulator/trace"
)

// gateFirst is I5: at a call that sets the content of a CVM, the Slot's policy allows exactly that
// content for the Revision of the acting Operation. The Revision of an Operation stays in the
// policy between its call and its end. Otherwise the new Boot would not be admitted.
func gateFirst(s *state, e trace.Event) []string {
	switch {
	case e.Kind == trace.Called && (e.Call.Verb == cloud.Create || e.Call.Verb == cloud.Update):
		return s.allowedFirst(e)
	case e.Kind == trace.Committed && e.Policy != nil:
		return s.narrowedEarly(e)
	}
	return nil
}

func (s *state) allowedFirst(e trace.Event) []string {
	m := s.member(e.Slot)
	op := m.acting()
	if op == nil {
		return wrong("call %d: no Operation acts on %s", e.Call.ID, e.Slot)
	}
	if !slices.ContainsFunc(m.allowed(), func(a policy.AllowedRevision) bool { return a.Revision == op.To && a.ComposeHash == e.Call.Hash }) {
		return wrong("call %d has %s run %.12q, which its policy does not allow for revision %.12s", e.Call.ID, e.Slot, e.Call.Hash, op.To)
	}
	return nil
}

func (s *state) narrowedEarly(e trace.Event) []string {
	m := s.member(e.Policy.Slot)
	after := (&member{policy: ifKept(e, e.Policy)}).allowed()
	for _, op := range m.open {
		was, stays := allows(m.allowed(), op.To), allows(after, op.To)
		if awaitsBoot(op) && was && !stays {
			return wrong("the policy of %s allows %.12s no more, while %s leads there", m.slot, op.To, op.ID)
		}
	}
	return nil
}

// awaitsBoot: a Boot of the Revision of op may come up.
func awaitsBoot(op *operation.Operation) bool {
	return op.Kind != operation.Delete && op.To != "" && (op.Phase == operation.Acting || op.Phase == operation.Booting || op.Phase == operation.Joining || op.Phase == operation.Settling)
}

// floor is I8: no Operation to a Revision below the Slot's floor acts, and no call makes a CVM run
// such a Revision. A Restart leads to no Revision.
func floor(s *state, e trace.Event) []string {
	op := s.acts(e)
	if e.Kind == trace.Called && e.Call.Hash != "" {
		op = s.member(e.Slot).acting()
	}
	if op == nil || op.Kind == operation.Delete || op.Kind == operation.Restart {
		return nil
	}
	p := s.member(op.Slot).policy
	if p == nil || p.Floor == 0 || !allows(p.Allowed, op.To) {
		return nil // no floor is set, or the policy allows nothing at all
	}
	if !slices.ContainsFunc(p.Allowed, func(a policy.AllowedRevision) bool { return a.Revision == op.To && a.Number >= p.Floor }) {
		return wrong("%s leads %s to %.12s, which is below the floor #%d", op.ID, op.Slot, op.To, p.Floor)
	}
	return nil
}

// allowed are the Revisions that the Slot may run.
func (m *member) allowed() []policy.AllowedRevision {
	if m.policy == nil {
		return nil
	}
	return m.policy.Allowed
}

func allows(all []policy.AllowedRevision, revision string) bool {
	return slices.ContainsFunc(all, func(a policy.AllowedRevision) bool { return a.Revision == revision })
}
