package operation

import (
	"strings"
	"testing"
	"time"
)

// TestAnExistingCVMPreventsACreation: a CVM may appear after the decision, as a late effect of an earlier call or by an
// outside change. The step never makes a second CVM then (R67).
func TestAnExistingCVMPreventsACreation(t *testing.T) {
	for _, kind := range []Kind{Create, Replace} {
		op, now := begun(Create), start
		op.Kind = kind
		op = op.enter(Drained, now)
		empty := quiet(now)
		empty.Platform, empty.Admission = nil, nil
		op, effects := step(t, op, empty, now, Acting)
		if len(effects) != 1 || effects[0].Call != PartCreate {
			t.Fatalf("%s: %+v", kind, effects)
		}
		there := quiet(now)
		if reason, ok := MayCall(op, there); ok {
			t.Errorf("%s: the call leaves beside CVM %s", kind, there.Platform.VMUUID)
		} else if reason == "" {
			t.Errorf("%s: no reason", kind)
		}
		there.Call = &CallResult{Number: 1, Outcome: OutcomeNotMade, Message: "there is one"}
		op, effects = step(t, op, there, now, Acting)
		wantNoEffects(t, effects)
		now = now.Add(time.Minute)
		op, effects = step(t, op, quiet(now), now, Booting)
		wantNoEffects(t, effects)
		if op.CVM.VMUUID != "vm-1" || op.Call.Number != 1 {
			t.Errorf("%s: %d calls, CVM %s", kind, op.Call.Number, op.CVM.VMUUID)
		}
	}
}

// TestAResolvedDeletionLetsTheOldNameGo: after its deletion, a Replace names the new CVM, whether the platform or an
// operator confirmed the deletion.
func TestAResolvedDeletionLetsTheOldNameGo(t *testing.T) {
	op, now := begun(Update), start
	op.Kind, op.CVM.Incarnation = Replace, 1
	op = op.enter(Drained, now)
	op, _ = step(t, op, quiet(now), now, Acting)
	f := quiet(now)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeUnknown, Message: "500"}
	f.Platform.InProgress = true
	op, _ = step(t, op, f, now, Acting)
	f.Call, f.Platform = nil, nil
	f.PlatformKnown = false
	f.Resolved = &Resolution{ID: "q", As: Done}
	op, _ = step(t, op, f, now, Drained)
	if op.CVM.VMUUID != "" || op.CVM.InstanceID != "" {
		t.Errorf("it still names %s, %s", op.CVM.VMUUID, op.CVM.InstanceID)
	}
}

// TestNothingHappenedIfAnOperatorSaysSo: the member keeps its state from before the step.
func TestNothingHappenedIfAnOperatorSaysSo(t *testing.T) {
	op, now := to(t, Update, Acting)
	f := quiet(now)
	f.Resolved = &Resolution{ID: "q", As: Failed}
	op, _ = step(t, op, f, now, Failed)
	if !op.CameToNothing() {
		t.Error("an untouched CVM is taken for a changed one")
	}
}

// TestHalfAChangeLeavesNoMemberDrained: the member came up after the first of two changes and was drained again. The
// step ends there, and the member serves.
func TestHalfAChangeLeavesNoMemberDrained(t *testing.T) {
	op, now := to(t, Update, Drained)
	op.Call.Applied, op.Call.Part, op.Times.HealthyBy = []Part{PartResources}, PartResources, now.Add(time.Minute)
	f := quiet(now.Add(time.Minute))
	f.Safe, f.SafeReason = false, "quorum"
	op, _ = step(t, op, f, now.Add(time.Minute), Failed)
	if o, ok := CurrentOrder(op); !ok || o.Verb != VerbCancelDrain {
		t.Errorf("order %+v, %t", o, ok)
	}
}

// TestAReplacedCVMThatShowsAgainIsNotTheNewOne: the listing lags.
func TestAReplacedCVMThatShowsAgainIsNotTheNewOne(t *testing.T) {
	op, now := begun(Update), start
	op.Kind, op.CVM.Incarnation, op.CVM.VMUUID, op.CVM.InstanceID = Replace, 1, "", ""
	op.Call.Applied, op.Call.Part, op.Times.HealthyBy = []Part{PartDelete}, PartDelete, now.Add(time.Hour)
	op = op.enter(Drained, now)
	f := quiet(now)
	f.Platform.Former = true
	op, effects := step(t, op, f, now, Drained)
	wantNoEffects(t, effects)
	if op.CVM.VMUUID != "" {
		t.Errorf("takes %s for the new one", op.CVM.VMUUID)
	}
}

// TestAFormerCVMIsNotAdopted: a call to make a CVM had no effect, and the former CVM of the Slot shows again. The step
// waits until an operator deletes the former CVM.
func TestAFormerCVMIsNotAdopted(t *testing.T) {
	op, now := to(t, Create, Acting)
	f := quiet(now)
	f.Platform, f.Admission = nil, nil
	f.Call = &CallResult{Number: 1, Outcome: OutcomeNotMade, Message: "another leader"}
	op, _ = step(t, op, f, now, Acting)
	later := now.Add(time.Minute)
	back := quiet(later)
	back.Platform.Former, back.Admission = true, nil
	op, effects := step(t, op, back, later, Acting)
	wantNoEffects(t, effects)
	if op.CVM.VMUUID != "" || !strings.Contains(op.Reason, "delete it there") {
		t.Errorf("takes %q for the new CVM: %s", op.CVM.VMUUID, op.Reason)
	}
	back.Platform = nil
	_, effects = step(t, op, back, later, Acting)
	wantCall(t, effects, Create, 2)
}
