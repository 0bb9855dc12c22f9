package rollout

import (
	"testing"

	"cadre.dev/core/operation"
)

// TestACVMThatIsNotListedYetIsNotMadeTwice: the platform accepted the creation and does not list the CVM yet when the
// spec changes. No re-target happens before the CVM is listed.
func TestACVMThatIsNotListedYetIsNotMadeTwice(t *testing.T) {
	f := newFixture(3, "none").missing(2).want("B").rolling()
	f.at(0, "B").at(1, "B")
	f.op(2, operation.Booting, func(op *operation.Operation) {
		op.Kind, op.From, op.Call.Number, op.CVM.VMUUID, op.Call.Outcome = operation.Create, "", 1, "vm-new", operation.OutcomeDone
	})
	f.want("C")
	p := f.plan()
	for _, a := range p.Actions {
		if a.Slot == "db-2" && a.Operation == "" {
			t.Errorf("%s of a Slot whose CVM is on its way:\n%s", a.Kind, describe(p))
		}
	}
}

// TestAReplaceThatDidNothingLeavesTheSlotBound: while no CVM is made, the Slot stays bound to the lost CVM. An unbound
// Slot would be filled without the rules of a replacement.
func TestAReplaceThatDidNothingLeavesTheSlotBound(t *testing.T) {
	f := newFixture(3, "consul").rolling()
	f.obs.Slots[1].Instance, f.obs.Slots[1].Report = nil, nil
	f.op(1, operation.Drained, func(op *operation.Operation) {
		op.Kind, op.Rollout, op.Actor, op.Request.ID, op.CVM.Incarnation = operation.Replace, "", operation.ActorOperator, "q", 1
		op.CVM.InstanceID, op.CVM.VMUUID, op.Way.SkipDrain, op.Before.Unavailable = "", "", true, true
	})
	if got := f.plan().Slots[1]; got.VMUUID != "vm-db-1" || got.Incarnation != 0 {
		t.Errorf("unbound before anything was done: %+v", got)
	}
	op := &f.rec.Operations[0]
	op.Phase, op.Call.Part, op.Call.Number = operation.Acting, operation.PartCreate, 1
	if got := f.plan().Slots[1]; got.VMUUID != "vm-db-1" || got.Incarnation != 0 {
		t.Errorf("unbound before the platform took the creation: %+v", got)
	}
	op.Phase, op.CVM.VMUUID, op.Call.Applied = operation.Booting, "vm-new", []operation.Part{operation.PartCreate}
	if got := f.plan().Slots[1]; got.VMUUID != "" || got.Incarnation != 1 || len(got.Lineage) != 1 {
		t.Errorf("bound to the lost one: %+v", got)
	}
}

// TestALostCVMThatComesBackIsNotReplaced: the step had no effect yet, so the member stays.
func TestALostCVMThatComesBackIsNotReplaced(t *testing.T) {
	f := newFixture(3, "none").rolling()
	f.op(1, operation.Drained, func(op *operation.Operation) {
		op.Kind, op.Rollout, op.Actor, op.Request.ID, op.CVM.Incarnation = operation.Replace, "", operation.ActorOperator, "q", 1
		op.CVM.InstanceID, op.CVM.VMUUID, op.Way.SkipDrain, op.Before.Unavailable = "", "", true, true
	})
	op := f.rec.Operations[0]
	facts := f.facts(op)
	facts.Term = op.Term
	next, effects := operation.Advance(op, facts, f.now)
	if next.Phase != operation.Aborted || len(effects) != 0 {
		t.Errorf("%s: %s, %v", next.Phase, next.Reason, effects)
	}
	if got := f.plan().Slots[1]; got.VMUUID != "vm-db-1" {
		t.Errorf("unbound: %+v", got)
	}
}
