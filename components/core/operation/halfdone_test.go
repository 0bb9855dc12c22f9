package operation

import (
	"testing"
	"time"
)

// keptDown is an update of a CVM that was stopped before it and is still stopped, about to be started.
func keptDown(t *testing.T) (Operation, Facts, time.Time) {
	t.Helper()
	op, now := to(t, Update, Drained)
	f := quiet(now)
	f.Platform.Running, f.Platform.Stopped = false, true
	op, _ = step(t, op, f, now, Acting)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone}
	op, _ = step(t, op, f, now, Booting)
	f.Call, f.Platform.ComposeHash = nil, f.WantedHash
	now = now.Add(f.Limits.Settle)
	f.ObservedAt = now
	op, _ = step(t, op, f, now, Drained)
	return op, f, now
}

// TestR87_HalfOfAChangeEndsByItsDeadline: the step is not called off. While the platform answers busy or the call is
// unsafe, no newer spec re-targets the step.
func TestR87_HalfOfAChangeEndsByItsDeadline(t *testing.T) {
	for _, outcome := range []Outcome{OutcomeBusy, OutcomeNotMade} {
		op, f, now := keptDown(t)
		deadline := op.Times.HealthyBy
		op, _ = step(t, op, f, now, Acting)
		for ; now.Before(deadline); now = now.Add(MaxWait) {
			f.ObservedAt = now
			f.Call = &CallResult{Number: op.Call.Number, Outcome: outcome, Message: "later"}
			op, _ = step(t, op, f, now, Acting)
			f.Call = nil
			if op.Call.Outcome != "" {
				op, _ = step(t, op, f, now, Acting)
			}
		}
		if op.Call.Number < 4 {
			t.Errorf("%s: %d calls until the deadline", outcome, op.Call.Number)
		}
		f.Call, f.ObservedAt = &CallResult{Number: op.Call.Number, Outcome: outcome, Message: "later"}, now
		op, _ = step(t, op, f, now, Acting)
		f.Call = nil
		now = now.Add(MaxWait)
		f.ObservedAt = now
		paused := f
		paused.Paused = true
		if again, effects := step(t, op, paused, now, Acting); len(effects) != 1 || !again.Times.HealthyBy.After(now) {
			t.Errorf("%s: a pause ends it: %s", outcome, again.Reason)
		}
		op, effects := step(t, op, f, now, Failed)
		wantNoEffects(t, effects)
		if op.Failure.Cause != CauseDeadline || !op.EndedHalfDone() {
			t.Errorf("%s: %s: %s", outcome, op.Failure.Cause, op.Reason)
		}
	}
	// A step without an effect keeps waiting: it can be called off, or re-targeted, at any time.
	op, now := to(t, Update, Acting)
	f := quiet(now)
	f.Call = &CallResult{Number: op.Call.Number, Outcome: OutcomeBusy}
	op, _ = step(t, op, f, now, Acting)
	f.Call, f.ObservedAt = nil, now.Add(time.Hour)
	_, effects := step(t, op, f, f.ObservedAt, Acting)
	wantCall(t, effects, Update, 2)
}

// TestR4_TheBootThatAStartWaitsForIsNotTakenForTheOneBefore: the Boot came while the listing still showed the CVM as
// stopped.
func TestR4_TheBootThatAStartWaitsForIsNotTakenForTheOneBefore(t *testing.T) {
	op, f, now := keptDown(t)
	busy, _ := step(t, op, f, now, Acting)
	busy.Call.Outcome = OutcomeBusy
	f.Admission = &AdmissionView{BootID: "boot-new", Revision: "B", InstanceID: "i-1"}
	op, effects := step(t, op, f, now, Joining)
	wantOrder(t, effects, VerbPostLaunch)
	if op.Before.BootID != "boot-old" || op.Call.Number != 1 {
		t.Errorf("after %q, call %d", op.Before.BootID, op.Call.Number)
	}
	now = now.Add(MaxWait)
	f.ObservedAt = now
	step(t, busy, f, now, Joining)
}

// TestI16_ABootOfAnEarlierCallDecidesNoLaterCall: the update was only noted, and its Boot is admitted after the start
// was called. The start may still end that Boot, so the step waits until no effect can show any more.
func TestI16_ABootOfAnEarlierCallDecidesNoLaterCall(t *testing.T) {
	op, f, now := keptDown(t)
	op, effects := step(t, op, f, now, Acting)
	if len(effects) != 1 || effects[0].Call != PartRestart {
		t.Fatalf("%+v, want the start of the CVM", effects)
	}
	f.Call = &CallResult{Number: op.Call.Number, Outcome: OutcomeUnknown, Message: "timeout"}
	op, _ = step(t, op, f, now, Acting)
	f.Call, f.Platform.Running, f.Platform.Stopped = nil, true, false
	f.Admission = &AdmissionView{BootID: "boot-new", Revision: "B", InstanceID: "i-1"}
	op, effects = step(t, op, f, now, Acting)
	wantNoEffects(t, effects)
	now = now.Add(limits.Settle)
	f.ObservedAt = now
	step(t, op, f, now, Booting)
}
