package check

import (
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/simulator/trace"
)

// monotonic is I21: the store's index never falls. A Slot's count of CVMs, the generation of its
// admissions and the epoch of its policy never fall while the Slot exists. The Term and the calls
// of an Operation never fall, and an ended Operation does not resume.
func monotonic(s *state, e trace.Event) []string {
	if e.Kind != trace.Committed {
		return nil
	}
	var out []string
	falls := func(what string, before, after uint64) {
		if after < before {
			out = append(out, wrong("%s falls from %d to %d: %s", what, before, after, e.Key)...)
		}
	}
	if e.Index != 0 {
		falls("the index", s.storeIndex, e.Index)
	}
	if e.Deleted {
		return out
	}
	switch {
	case e.Bound != nil:
		falls("the count of CVMs", incarnation(s.member(e.Bound.Slot).bound), e.Bound.Incarnation)
	case e.Admission != nil:
		falls("the generation", s.member(e.Admission.Slot).generation, e.Admission.Generation)
	case e.Policy != nil:
		falls("the epoch", epoch(s.member(e.Policy.Slot).policy), e.Policy.Epoch)
	case e.Operation != nil:
		out = append(out, s.turnsBack(e.Operation)...)
	}
	return out
}

func incarnation(r *group.SlotRecord) uint64 {
	if r == nil {
		return 0
	}
	return r.Incarnation
}

func epoch(p *policy.SlotPolicy) uint64 {
	if p == nil {
		return 0
	}
	return p.Epoch
}

// turnsBack lists the values of an Operation that fell.
func (s *state) turnsBack(op *operation.Operation) []string {
	before := s.operations[op.ID]
	switch {
	case before == nil:
		return nil
	case before.Phase.Ended() && op.Phase != before.Phase:
		return wrong("%s is %s after it ended as %s", op.ID, op.Phase, before.Phase)
	case op.Term < before.Term:
		return wrong("the Term of %s falls from %d to %d", op.ID, before.Term, op.Term)
	case op.Call.Number < before.Call.Number:
		return wrong("the calls of %s fall from %d to %d", op.ID, before.Call.Number, op.Call.Number)
	}
	return nil
}
