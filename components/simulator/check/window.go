package check

import (
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// runBegan is the time at which each run begins, that of testing/synctest.
var runBegan = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// mostSkew bounds the offset of a coordinator's clock in a plan.
const mostSkew = time.Hour

// windows is R97: no step of a rollout begins to take a healthy member away outside of the spec's windows, by the true
// time within the bound of the clocks. Without a fault of a clock the bound is the age that evidence may have.
func windows(t trace.Trace) []Violation {
	var f findings
	bound := time.Duration(EvidenceAge)
	walk(t, func(s *state, i int, e trace.Event) {
		if e.Kind == trace.Faulted && setsClock(e) {
			bound = mostSkew + EvidenceAge
		}
		op := s.disrupts(e)
		begins := op != nil && s.operations[op.ID] == nil // a step that has begun is finished
		if !begins || op.Kind != operation.Update || op.Actor != operation.ActorRollout || op.Request.ID != "" || s.mayBeDown(op.Slot) || s.silent(op.Slot) || s.wasDown(op) {
			return
		}
		for _, sp := range s.specsOf(op.Group) {
			if sp == nil {
				return
			}
			opens, _, ok := sp.UpdatePolicy.Windows.Next(runBegan.Add(e.At - bound))
			if ok && !opens.After(runBegan.Add(e.At+bound)) {
				return
			}
		}
		f.add(i, "%s takes %s away outside of all windows", op.ID, op.Slot)
	})
	return f
}
