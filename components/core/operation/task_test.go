package operation

import (
	"strings"
	"testing"
	"time"
)

// undecided is a call whose answer was lost, with a platform listing that shows no effect.
func undecided(t *testing.T, kind Kind) (Operation, Facts, time.Time) {
	t.Helper()
	op, now := to(t, kind, Acting)
	f := quiet(now)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeUnknown}
	op, _ = step(t, op, f, now, Acting)
	f.Call = nil
	return op, f, now
}

// TestR66_TheRecordOfATaskSettlesItsCall: the record settles the outcome at once, also for changes that no listing
// shows.
func TestR66_TheRecordOfATaskSettlesItsCall(t *testing.T) {
	for _, kind := range []Kind{Restart, Update} {
		op, f, now := undecided(t, kind)
		f.Task = &Task{Correlation: "op-1"}
		op, effects := step(t, op, f, now.Add(time.Second), Booting)
		wantNoEffects(t, effects)
		if op.Call.Number != 1 || op.Call.Outcome != OutcomeDone || op.Call.Correlation != "op-1" {
			t.Errorf("%s: %d calls, %s, %s", kind, op.Call.Number, op.Call.Outcome, op.Call.Correlation)
		}
	}
}

// TestR66_ACallInProgressIsNotRepeated: the call is not repeated even if its effect shows late.
func TestR66_ACallInProgressIsNotRepeated(t *testing.T) {
	op, f, now := undecided(t, Update)
	f.Task = &Task{Correlation: "op-1", InProgress: true}
	late := now.Add(2 * limits.Settle)
	f.ObservedAt = late
	op, effects := step(t, op, f, late, Acting)
	wantNoEffects(t, effects)
	f.Task = nil
	if _, effects = Advance(op, f, late); len(effects) != 1 {
		t.Errorf("effects %+v: without a record it would be made again, so the test shows nothing", effects)
	}
}

// TestATaskThatFailedEndsTheStepAtOnce, with the platform's message and before its deadline.
func TestATaskThatFailedEndsTheStepAtOnce(t *testing.T) {
	op, f, now := undecided(t, Restart)
	f.Task = &Task{Correlation: "op-1", Failed: "task op-1 (restart) failed: no room"}
	op, _ = step(t, op, f, now.Add(time.Second), Booting)
	op, _ = step(t, op, f, now.Add(2*time.Second), Failed)
	if op.Failure.Cause != CauseTask || !strings.Contains(op.Reason, "no room") {
		t.Errorf("ended with %s: %s", op.Failure.Cause, op.Reason)
	}
	// The task of another call ends no step.
	op, f, now = undecided(t, Restart)
	f.Task = &Task{Correlation: "op-1"}
	op, _ = step(t, op, f, now.Add(time.Second), Booting)
	f.Task = &Task{Correlation: "op-0", Failed: "no room"}
	step(t, op, f, now.Add(2*time.Second), Booting)
}

// TestATaskThatFailedBetweenTwoChangesEndsTheStep: the platform accepted the first change and reports
// that it failed, so no later change is called.
func TestATaskThatFailedBetweenTwoChangesEndsTheStep(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := reshaped(now)
	op, _ = step(t, op, f, now, Acting)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone, Correlation: "op-1"}
	op, _ = step(t, op, f, now.Add(time.Second), Acting)
	f.Call, f.Task = nil, &Task{Correlation: "op-0", Failed: "of another call"}
	op, _ = step(t, op, f, now.Add(2*time.Second), Acting)
	f.Task = &Task{Correlation: "op-1", Failed: "no host has the size"}
	op, effects := step(t, op, f, now.Add(3*time.Second), Failed)
	wantNoEffects(t, effects)
	if op.Failure.Cause != CauseTask || !strings.Contains(op.Reason, "no host has the size") || op.Call.Number != 1 {
		t.Errorf("ended with %s after %d calls: %s", op.Failure.Cause, op.Call.Number, op.Reason)
	}
}
