package operation

import (
	"testing"
	"time"
)

// serviceOp is a restart of one service, at the phase.
func serviceOp(t *testing.T, phase Phase) (Operation, time.Time) {
	t.Helper()
	op, now := begun(Restart), start
	op.Service = "db"
	for range 60 {
		if op.Phase == phase {
			return op, now
		}
		now = now.Add(time.Second)
		f := happy(op, now)
		if op.Phase == Booting {
			f = quiet(now)
			f.Steps = answer(VerbRestartService, StepDone)
		}
		op, _ = Advance(op, f, now)
	}
	t.Fatalf("it does not reach %s; it is at %s: %s", phase, op.Phase, op.Reason)
	return op, now
}

// TestR115_AServiceIsRestartedByItsAgent: drained first, by no platform call, and the Boot
// stays; the order is in the record before anybody is told.
func TestR115_AServiceIsRestartedByItsAgent(t *testing.T) {
	op, now := serviceOp(t, Drained)
	op, effects := step(t, op, quiet(now), now, Booting)
	wantOrder(t, effects, VerbRestartService)
	if o, ok := CurrentOrder(op); !ok || o.Verb != VerbRestartService || o.Service != "db" || !o.Deadline.Equal(now.Add(limits.Service)) {
		t.Errorf("the order is %+v, %t", o, ok)
	}
	if joins, _ := serviceOp(t, Joining); !op.OutOfService() || joins.OutOfService() {
		t.Error("callers are led to it while it ends and starts, or not any more after that")
	}
	// Nothing is told by a Boot that merely lives.
	op, effects = step(t, op, quiet(now), now, Booting)
	wantNoEffects(t, effects)
	f := quiet(now)
	f.Steps = answer(VerbRestartService, StepRunning)
	op, _ = step(t, op, f, now, Booting)
	f.Steps = answer(VerbRestartService, StepDone)
	_, effects = step(t, op, f, now, Joining)
	wantOrder(t, effects, VerbPostLaunch)
	if op, _ = serviceOp(t, Done); op.Calls != 0 || len(op.Applied) != 0 {
		t.Errorf("the platform was called: %d, %v", op.Calls, op.Applied)
	}
}

// TestR115_AServiceThatIsNotRestarted: the agent says so, nothing is heard of it, or the CVM
// boots by itself, which starts all anew.
func TestR115_AServiceThatIsNotRestarted(t *testing.T) {
	op, now := serviceOp(t, Booting)
	f := quiet(now)
	f.Steps = answer(VerbRestartService, StepFailed)
	failed, effects := step(t, op, f, now, Failed)
	wantOrder(t, effects, VerbCancelDrain)
	if failed.Cause != CauseService {
		t.Errorf("cause %s", failed.Cause)
	}
	if o, ok := CurrentOrder(failed); !ok || o.Verb != VerbCancelDrain {
		t.Errorf("a drained member is not given back: %+v, %t", o, ok)
	}
	late := now.Add(limits.Service)
	if op, _ := step(t, op, quiet(late), late, Failed); op.Cause != CauseDeadline {
		t.Errorf("cause %s", op.Cause)
	}
	f = quiet(now)
	f.Admission.BootID = "boot-new"
	step(t, op, f, now, Joining)
	f.Admission.Revision = "B"
	step(t, op, f, now, Booting)
}
