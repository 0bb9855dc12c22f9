package operation

import (
	"strings"
	"testing"
	"time"
)

// leavingFacts are the facts of a drained Slot whose set has the state word.
func leavingFacts(word SetWord, alive bool) Facts {
	return Facts{Term: 1, PlatformKnown: true, Platform: &PlatformView{VMUUID: "vm", InstanceID: "i", Running: true}, Safe: true,
		Belonging: Belonging{Set: word, LeavesAlive: alive}, ObservedAt: leavingAt, Limits: Limits{Healthy: time.Minute, Settle: time.Second, Unknown: time.Hour}}
}

var leavingAt = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func leavingOp(k Kind) Operation {
	return Operation{ID: "x", Slot: "db-2", Kind: k, CVM: CVM{VMUUID: "vm", InstanceID: "i"}, Term: 1, Phase: Drained, To: "rev",
		Times: Times{DrainBy: leavingAt.Add(time.Minute)}, Entered: PhaseTimes{Drained: leavingAt}}
}

func TestR46_ADiskGoesAfterItsVote(t *testing.T) {
	for _, k := range []Kind{Delete, Replace} {
		op, effects := Advance(leavingOp(k), leavingFacts(SetListed, true), leavingAt)
		if len(effects) != 0 || op.Phase != Drained || !op.Set.Leaves || !op.Leaving() {
			t.Fatalf("%s: listed: %s, leaves %t, %d effects", k, op.Phase, op.Set.Leaves, len(effects))
		}
		// The step is no longer called off: the member may already be out.
		f := leavingFacts(SetListed, true)
		f.Unwanted = "the slot is wanted again"
		if next, _ := Advance(op, f, leavingAt); next.Phase != Drained {
			t.Errorf("%s: called off after the leave was recorded: %s", k, next.Phase)
		}
		next, effects := Advance(op, leavingFacts(SetAbsent, true), leavingAt)
		if len(effects) != 1 || effects[0].Call != PartDelete {
			t.Errorf("%s: out of the set: %s, %d effects", k, next.Phase, len(effects))
		}
		late := leavingAt.Add(2 * time.Minute)
		if next, _ = Advance(op, leavingFacts(SetListed, true), late); next.Phase != Failed || next.Failure.Cause != CauseDeadline {
			t.Errorf("%s: never let out: %s %s", k, next.Phase, next.Failure.Cause)
		}
	}
}

// TestR43_AMemberDoesNotLeaveAnUnknownSet: the step waits while the set is unknown, and is called off if it had no
// effect.
func TestR43_AMemberDoesNotLeaveAnUnknownSet(t *testing.T) {
	op, effects := Advance(leavingOp(Delete), leavingFacts(SetUnknown, true), leavingAt)
	if len(effects) != 0 || op.Set.Leaves || op.Phase != Drained {
		t.Fatalf("%s, leaves %t, %d effects", op.Phase, op.Set.Leaves, len(effects))
	}
	if op, _ = Advance(op, leavingFacts(SetUnknown, true), leavingAt.Add(2*time.Minute)); op.Phase != Aborted || op.Failure.Cause != CauseUnsafe {
		t.Errorf("%s %s", op.Phase, op.Failure.Cause)
	}
}

// TestR46_AMemberThatReturnsAutomaticallyLeavesAfterItsCVM: a member that would return automatically leaves once its
// CVM is gone.
func TestR46_AMemberThatReturnsAutomaticallyLeavesAfterItsCVM(t *testing.T) {
	op, effects := Advance(leavingOp(Delete), leavingFacts(SetListed, false), leavingAt)
	if len(effects) != 1 || op.Phase != Acting || op.Set.Leaves {
		t.Fatalf("%s, leaves %t, %d effects", op.Phase, op.Set.Leaves, len(effects))
	}
	op = op.enter(Booting, leavingAt)
	op.Times.HealthyBy = leavingAt.Add(time.Minute)
	f := leavingFacts(SetListed, false)
	f.Platform = nil
	if op, _ = Advance(op, f, leavingAt); op.Phase != Booting || !op.Leaving() {
		t.Fatalf("gone and listed: %s, leaves %t", op.Phase, op.Set.Leaves)
	}
	f.Set = SetAbsent
	if op, _ = Advance(op, f, leavingAt); op.Phase != Done {
		t.Errorf("gone and out: %s", op.Phase)
	}
}

// TestR49_NothingIsMadeWhileTheSetKnowsTheLastOne: a replaced member joins under the same name and is not removed
// again.
func TestR49_NothingIsMadeWhileTheSetKnowsTheLastOne(t *testing.T) {
	op := leavingOp(Replace)
	op.CVM.VMUUID, op.CVM.InstanceID = "", ""
	f := leavingFacts(SetListed, true)
	f.Platform = nil
	op, effects := Advance(op, f, leavingAt)
	if len(effects) != 0 || !op.Leaving() {
		t.Fatalf("listed: %d effects, leaves %t", len(effects), op.Set.Leaves)
	}
	f.Set = SetAbsent
	op, effects = Advance(op, f, leavingAt)
	if len(effects) != 1 || effects[0].Call != PartCreate || op.Leaving() {
		t.Fatalf("out: %d effects, leaving %t", len(effects), op.Leaving())
	}
	f.Set = SetListed
	if reason, ok := MayCall(op, f); ok {
		t.Errorf("made while it is listed again: %s", reason)
	}
}

// TestR128_AMissingMemberNeedsNoDrain: the platform's listing lacked the CVM when its replacement was decided, and the
// agent's last report was still fresh. No agent answers the drain.
func TestR128_AMissingMemberNeedsNoDrain(t *testing.T) {
	op := leavingOp(Replace)
	op.CVM.VMUUID, op.CVM.InstanceID, op.Phase = "", "", Draining
	f := leavingFacts(SetAbsent, true)
	f.Platform, f.LastReportAt = nil, leavingAt
	if op, _ = Advance(op, f, leavingAt.Add(5*time.Second)); op.Phase != Draining {
		t.Errorf("its agent spoke a moment ago: %s", op.Phase)
	}
	if op, _ = Advance(op, f, leavingAt.Add(6*time.Second)); op.Phase != Drained {
		t.Errorf("its agent is silent: %s", op.Phase)
	}
}

// TestR48_ALeaveNamesAnIncarnation: the step records the leaving member's id with the leave, and keeps that id until
// the step ends.
func TestR48_ALeaveNamesAnIncarnation(t *testing.T) {
	f := leavingFacts(SetListed, true)
	f.Member = "a1"
	op, _ := Advance(leavingOp(Delete), f, leavingAt)
	if !op.Set.Leaves || op.Set.LeavesAs != "a1" {
		t.Fatalf("leaves %t as %q", op.Set.Leaves, op.Set.LeavesAs)
	}
	f.Member = "b2"
	op, effects := Advance(op, f, leavingAt)
	if op.Set.LeavesAs != "a1" || len(effects) != 0 || op.Phase != Drained || !strings.Contains(op.Reason, "b2") {
		t.Errorf("another one has its name: leaves as %q, %s, %d effects: %s", op.Set.LeavesAs, op.Phase, len(effects), op.Reason)
	}
	if op, effects = Advance(op, leavingFacts(SetAbsent, true), leavingAt); len(effects) != 1 || op.Set.LeavesAs != "a1" {
		t.Errorf("it is out: %d effects, leaves as %q", len(effects), op.Set.LeavesAs)
	}
	// A leave recorded before any member reported ids learns its id later.
	op, _ = Advance(leavingOp(Delete), leavingFacts(SetListed, true), leavingAt)
	if op, _ = Advance(op, f, leavingAt); op.Set.LeavesAs != "b2" {
		t.Errorf("leaves as %q", op.Set.LeavesAs)
	}
	// A leave whose CVM goes first learns its id later too.
	op, _ = Advance(leavingOp(Delete), leavingFacts(SetListed, false), leavingAt)
	f = leavingFacts(SetListed, false)
	f.Platform, f.Member, f.PlatformKnown = nil, "a1", true
	op.Phase = Booting
	if op, _ = Advance(op, f, leavingAt.Add(time.Second)); !op.Set.Leaves || op.Set.LeavesAs != "a1" {
		t.Errorf("its CVM is gone: leaves %t as %q, %s", op.Set.Leaves, op.Set.LeavesAs, op.Phase)
	}
}

// TestR49_ADrainDoesNotCallOffAnOrderedLeave: a member was ordered to leave and took up duties again. It may be out of
// the set while it drains again, so no outcome of that drain calls the step off.
func TestR49_ADrainDoesNotCallOffAnOrderedLeave(t *testing.T) {
	told, _ := Advance(leavingOp(Replace), leavingFacts(SetListed, true), leavingAt)
	listed := leavingFacts(SetListed, true)
	listed.Limits.Healthy = time.Hour
	told.Times.HealthyBy = leavingAt.Add(time.Hour)
	at := func(state StepState) Facts {
		f := listed
		f.Steps = []StepReport{{Operation: "x", Verb: VerbDrain, State: state}}
		return f
	}
	again, _ := Advance(told, at(StepRunning), leavingAt)
	if again.Phase != Draining {
		t.Fatalf("given duties again: %s", again.Phase)
	}
	for _, state := range []StepState{StepAborted, StepFailed} {
		if op, _ := Advance(again, at(state), leavingAt); op.Phase != Drained || !op.Leaving() {
			t.Errorf("its drain %s: %s", state, op.Phase)
		}
	}
	late := leavingAt.Add(2 * time.Minute)
	op, _ := Advance(again, at(StepRunning), late)
	if op.Phase != Drained || !op.Leaving() {
		t.Fatalf("drains longer than it may: %s", op.Phase)
	}
	if op, _ = Advance(op, at(StepRunning), late); op.Phase != Drained {
		t.Errorf("begins to wait anew: %s", op.Phase)
	}
	out := at(StepRunning)
	out.Set = SetAbsent
	if next, effects := Advance(op, out, late); len(effects) != 1 || effects[0].Call != PartDelete {
		t.Errorf("it is out: %s, %d effects", next.Phase, len(effects))
	}
	if op, _ = Advance(op, at(StepRunning), leavingAt.Add(time.Hour)); op.Phase != Failed || op.Failure.Cause != CauseDeadline {
		t.Errorf("never let out: %s %s", op.Phase, op.Failure.Cause)
	}
}

// TestR49_AStepOfARemovedMemberIsNotGivenUp: a member out of its set never serves again in its state. A hold or a
// refusal does not end its step. If the set lists the member again, the step gets the whole time again.
func TestR49_AStepOfARemovedMemberIsNotGivenUp(t *testing.T) {
	hour := leavingAt.Add(time.Hour)
	for _, k := range []Kind{Delete, Replace} {
		told, _ := Advance(leavingOp(k), leavingFacts(SetListed, true), leavingAt)
		for _, word := range []SetWord{SetAbsent, SetUnknown} {
			f := leavingFacts(word, true)
			f.Safe, f.SafeReason = false, "another one is down"
			op, effects := Advance(told, f, hour)
			if op.Phase != Drained || len(effects) != 0 {
				t.Errorf("%s, %s: held for long: %s, %d effects", k, word, op.Phase, len(effects))
			}
			if op, _ = Advance(op, leavingFacts(SetListed, true), hour.Add(time.Second)); op.Phase != Drained {
				t.Errorf("%s, %s: listed again: %s: %s", k, word, op.Phase, op.Reason)
			}
		}
		f := leavingFacts(SetAbsent, true)
		op, _ := Advance(told, f, leavingAt)
		f.Call = &CallResult{Number: 1, Outcome: OutcomeRefused, Message: "403"}
		op, _ = Advance(op, f, leavingAt)
		f.Call = nil
		if op.Phase != Acting || !strings.Contains(op.Reason, "403") {
			t.Fatalf("%s: refused: %s: %s", k, op.Phase, op.Reason)
		}
		if next, effects := Advance(op, f, leavingAt.Add(time.Second)); len(effects) != 0 {
			t.Errorf("%s: refused a moment ago: %s, %d effects", k, next.Phase, len(effects))
		}
		held := f
		held.Safe = false
		if next, _ := Advance(op, held, hour); next.Phase != Acting {
			t.Errorf("%s: refused, and held for long: %s", k, next.Phase)
		}
		if _, effects := Advance(op, f, leavingAt.Add(2*time.Second)); len(effects) != 1 || effects[0].Number != 2 {
			t.Errorf("%s: asked again: %d effects", k, len(effects))
		}
		// A member in its set still serves.
		in, _ := Advance(leavingOp(k), leavingFacts(SetListed, false), leavingAt)
		f = leavingFacts(SetListed, false)
		f.Call = &CallResult{Number: 1, Outcome: OutcomeRefused, Message: "403"}
		if in, _ = Advance(in, f, leavingAt); in.Phase != Failed || in.Failure.Cause != CauseRefused {
			t.Errorf("%s: refused, and in its set: %s %s", k, in.Phase, in.Failure.Cause)
		}
	}
}
