package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/operation"
)

// movedFixture is a group of four at A whose operator undid the change a moment after db-1's CVM received B. The step
// back was called off before its call, and the old Boot is still admitted.
func movedFixture() *fixture {
	f := newFixture(4, "none").want("B").rolling()
	f.op(1, operation.Aborted, func(op *operation.Operation) {
		op.Call.Number, op.Before.PendingBoot = 1, operation.PendingBoot{To: op.To, BootID: op.Before.BootID, At: f.now.Add(-3 * time.Second)}
	})
	return f.want("A")
}

// TestASlotWhoseCallDidNotShowYetIsOnItsWay: the admission and the last report are the Boot that the call ends. The
// Slot returns to A without a drain, because the agent is gone. No other Slot starts a step meanwhile (I1).
func TestASlotWhoseCallDidNotShowYetIsOnItsWay(t *testing.T) {
	f := movedFixture()
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-1")
	a := actionOf(t, p, "db-1")
	if a.Before.PendingBoot != f.rec.Operations[0].Before.PendingBoot || !a.Way.SkipDrain || a.To != revisionOf(f.spec, "A") {
		t.Errorf("moved %+v, skip_drain %t, to %.8s", a.Before.PendingBoot, a.Way.SkipDrain, a.To)
	}
	if w := newWorld(f.spec, f.rec, f.obs, f.now, f.t); w.find("db-1").ready || !w.find("db-0").ready {
		t.Error("the Boot that is to go counts as ready, or one that stays does not")
	}
	f.want("C")
	p = f.plan()
	wantExecutes(t, p, "UPDATE db-1")
	wantHeld(t, p, "db-0", HoldMaxUnavailable)
}

// TestTheStepBackIsNotCalledOff: while the step is only recorded, the admission still names the step's own target,
// which proves nothing.
func TestTheStepBackIsNotCalledOff(t *testing.T) {
	f := movedFixture().rolling()
	f.op(1, operation.Drained, func(op *operation.Operation) {
		op.Way.SkipDrain, op.Before.PendingBoot, op.To = true, f.rec.Operations[0].Before.PendingBoot, revisionOf(f.spec, "A")
	})
	if facts := f.facts(f.rec.Operations[1]); facts.Unwanted != "" || !facts.Safe {
		t.Errorf("unwanted: %q, unsafe: %q", facts.Unwanted, facts.SafeReason)
	}
}

// TestACallThatShowedOrWasFollowedCountsNoMore: another Boot came, or a later call decides the Slot's state.
func TestACallThatShowedOrWasFollowedCountsNoMore(t *testing.T) {
	for name, edit := range map[string]func(f *fixture){
		"another boot": func(f *fixture) {
			f.obs.Slots[1].Admission.BootID, f.obs.Slots[1].Report.BootID = "boot-new", "boot-new"
		},
		"a later call that failed": func(f *fixture) {
			f.rolling().op(1, operation.Failed, func(op *operation.Operation) {
				op.Before.PendingBoot, op.Call.Part = f.rec.Operations[0].Before.PendingBoot, operation.PartCompose
			})
		},
		"the later call of the same step failed": func(f *fixture) {
			op := &f.rec.Operations[0]
			op.Phase, op.Call.Number, op.Call.Part = operation.Failed, 2, operation.PartCompose
		},
		"a Boot that lives on when the effect must have shown": func(f *fixture) {
			f.rec.Operations[0].Before.PendingBoot.At = f.obs.Slots[1].Report.ReceivedAt.Add(-f.t.OrDefault().Settle)
		},
		"a step whose CVM nothing moved": func(f *fixture) { f.rec.Operations[0].Before.PendingBoot = operation.PendingBoot{} },
	} {
		f := movedFixture()
		edit(f)
		if m := newWorld(f.spec, f.rec, f.obs, f.now, f.t).find("db-1"); m.pendingBoot.To != "" || !m.ready {
			t.Errorf("%s: moved to %+v, not ready: %q", name, m.pendingBoot, m.reason)
		}
	}
	for name, edit := range map[string]func(op *operation.Operation){
		"called off before its call": func(op *operation.Operation) { op.Phase = operation.Aborted },
		"whose call was refused": func(op *operation.Operation) {
			op.Call.Part, op.Call.Outcome = operation.PartCompose, operation.OutcomeRefused
		},
	} {
		f := movedFixture().rolling()
		f.op(1, operation.Failed, func(op *operation.Operation) {
			op.Before.PendingBoot = f.rec.Operations[0].Before.PendingBoot
			edit(op)
		})
		if m := newWorld(f.spec, f.rec, f.obs, f.now, f.t).find("db-1"); m.pendingBoot.To == "" {
			t.Errorf("a step %s says what became of the Slot", name)
		}
	}
}

// TestAStepThatEndsBetweenItsPartsLeavesItsSlotOnItsWay: the image of db-1 was changed, which takes its CVM down, and
// the platform refused the matching text. The last report is of the old Boot (I1).
func TestAStepThatEndsBetweenItsPartsLeavesItsSlotOnItsWay(t *testing.T) {
	between := func(edit func(f *fixture, op *operation.Operation)) *member {
		f := newFixture(4, "none").want("B").rolling()
		f.op(1, operation.Failed, func(op *operation.Operation) {
			op.Call.Number, op.Call.IssuedAt, op.Call.Outcome, op.Failure.Cause = 2, f.now.Add(-time.Second), operation.OutcomeRefused, operation.CauseRefused
			op.Call.Applied = []operation.Part{operation.PartOSImage}
			f.obs.Slots[1].Report.ReceivedAt = f.now.Add(-12 * time.Second)
			edit(f, op)
		})
		return newWorld(f.spec, f.rec, f.obs, f.now, f.t).find("db-1")
	}
	if m := between(func(*fixture, *operation.Operation) {}); m.pendingBoot.To == "" || m.ready {
		t.Errorf("moved to %+v, ready: %t", m.pendingBoot, m.ready)
	}
	for name, edit := range map[string]func(f *fixture, op *operation.Operation){
		"no part had an effect": func(_ *fixture, op *operation.Operation) { op.Call.Applied = nil },
		"its Boot reports since": func(f *fixture, op *operation.Operation) {
			f.obs.Slots[1].Report.ReceivedAt = op.Call.IssuedAt
		},
		"another Boot holds the Slot": func(f *fixture, _ *operation.Operation) {
			f.obs.Slots[1].Admission.BootID, f.obs.Slots[1].Report.BootID = "boot-new", "boot-new"
		},
	} {
		if m := between(edit); m.pendingBoot.To != "" {
			t.Errorf("%s: moved to %+v", name, m.pendingBoot)
		}
	}
}

// TestARefreshBeginsWithNothingThatMoved: the refresh keeps its Boot, so the old Boot holds the Slot at its proven
// Revision. The agent does not report for a while, and the member keeps serving.
func TestARefreshBeginsWithNothingThatMoved(t *testing.T) {
	for _, phase := range []operation.Phase{operation.Joining, operation.Settling} {
		f := newFixture(3, "none").want("B").rolling().at(1, "B")
		f.op(1, phase, func(op *operation.Operation) { op.Way.Mode = operation.ModeRefresh }).silent(1, f.now.Add(-time.Second))
		if w := seenBy(f); w.find("db-1").condition != well {
			t.Errorf("%s: it counts as one that never booted", phase)
		}
	}
}
