package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/operation"
)

// TestALeaderLooksAgainAtTheDeadlineOfAStep: nothing else may happen until then.
func TestALeaderLooksAgainAtTheDeadlineOfAStep(t *testing.T) {
	for phase, set := range map[operation.Phase]func(op *operation.Operation, at time.Time){
		operation.Draining: func(op *operation.Operation, at time.Time) { op.DrainDeadline = at },
		operation.Booting:  func(op *operation.Operation, at time.Time) { op.HealthyDeadline = at },
		operation.Joining:  func(op *operation.Operation, at time.Time) { op.HealthyDeadline = at },
	} {
		f := newFixture(3, "none").want("B").rolling()
		at := f.now.Add(3 * time.Second)
		f.op(1, phase, func(op *operation.Operation) { set(op, at) })
		if p := f.plan(); p.Clock.IsZero() || p.Clock.After(at) {
			t.Errorf("%s: looks again at %s, want %s", phase, p.Clock, at)
		}
	}
}
