package rollout

import (
	"testing"

	"cadre.dev/core/operation"
)

// TestACVMThatIsNotListedYetIsNotMadeTwice: the platform took the creation and does not
// show it yet when the spec moves on. There is nothing to re-target before it shows.
func TestACVMThatIsNotListedYetIsNotMadeTwice(t *testing.T) {
	f := newFixture(3, "none").missing(2).want("B").rolling()
	f.at(0, "B").at(1, "B")
	f.op(2, operation.Booting, func(op *operation.Operation) {
		op.Kind, op.From, op.Calls, op.VMUUID, op.CallOutcome = operation.Create, "", 1, "vm-new", operation.OutcomeDone
	})
	f.want("C")
	p := f.plan()
	for _, a := range p.Actions {
		if a.Slot == "db-2" && a.Operation == "" {
			t.Errorf("%s of a Slot whose CVM is on its way:\n%s", a.Kind, describe(p))
		}
	}
}
