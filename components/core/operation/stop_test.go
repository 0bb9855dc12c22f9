package operation

import (
	"testing"
	"time"
)

// TestR147_AStopPausesBetweenItsCalls: no clock and no repeated call ends the pause, a CVM that its host started is
// stopped again, and the same step starts the CVM when the group is to run.
func TestR147_AStopPausesBetweenItsCalls(t *testing.T) {
	op, now := begun(Stop), start
	f := Facts{PlatformKnown: true, Safe: true, Limits: limits, Steps: answer(VerbDrain, StepDone)}
	f.Platform = &PlatformView{VMUUID: "vm-1", InstanceID: "i-1", Running: true, UpdatedAt: start}
	f.Admission = &AdmissionView{BootID: "boot-old", Revision: op.To, InstanceID: "i-1"}
	calls := []Part{}
	step := func(after time.Duration) {
		now = now.Add(after)
		f.Term, f.ObservedAt = op.Term, now
		var effects []Effect
		op, effects = Advance(op, f, now)
		for _, e := range effects {
			if e.Kind == CallPlatform {
				calls = append(calls, e.Call)
				f.Call = &CallResult{Number: e.Number, Outcome: OutcomeDone}
			}
		}
	}
	steps := func(n int) {
		for range n {
			step(time.Second)
		}
	}
	down := func(is bool) {
		f.Platform.Stopped, f.Platform.Running = is, !is
		steps(3)
	}
	steps(4)
	if down(true); !op.StaysStopped() || len(calls) != 1 || calls[0] != PartStop {
		t.Fatalf("%s after %v: %s", op.Phase, calls, op.Reason)
	}
	step(1000 * time.Hour)
	if !op.StaysStopped() || len(calls) != 1 {
		t.Fatalf("%s after a long time and %v: %s", op.Phase, calls, op.Reason)
	}
	down(false)
	if down(true); !op.StaysStopped() || len(calls) != 2 || calls[1] != PartStop {
		t.Fatalf("%s after the host started it and %v: %s", op.Phase, calls, op.Reason)
	}
	f.Unwanted = "the group is to run"
	if steps(3); op.Phase != Booting || len(calls) != 3 || calls[2] != PartRestart {
		t.Fatalf("%s after %v: %s", op.Phase, calls, op.Reason)
	}
	f.Admission = &AdmissionView{BootID: "boot-new", Revision: op.To, InstanceID: "i-1"}
	if down(false); op.Phase != Joining {
		t.Fatalf("%s after the new boot: %s", op.Phase, op.Reason)
	}
}

// TestR147_AStopWithoutItsCVMEnds: another client deleted the CVM. Healing and an operator decide about the Slot.
func TestR147_AStopWithoutItsCVMEnds(t *testing.T) {
	op, now := begun(Stop), start
	op.Phase, op.Call = Drained, op.Call.with(PartStop)
	for range 3 {
		now = now.Add(time.Minute)
		op, _ = Advance(op, Facts{Term: op.Term, PlatformKnown: true, Safe: true, Limits: limits, ObservedAt: now}, now)
	}
	if op.Phase != Failed || op.Failure.Cause != CauseVanished {
		t.Errorf("%s by %s: %s", op.Phase, op.Failure.Cause, op.Reason)
	}
}
