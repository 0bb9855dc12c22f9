package operation

import (
	"testing"
	"time"
)

// serviceOp is a restart of one service, at the phase.
func serviceOp(t *testing.T, phase Phase) (Operation, time.Time) {
	t.Helper()
	op, now := begun(Restart), start
	op.Way.Service = "db"
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

// TestR115_AServiceIsRestartedByItsAgent: the agent drains first, the platform gets no call, and the Boot stays. The
// order is in the record before the agent can see it.
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
	// A live Boot alone proves nothing.
	op, effects = step(t, op, quiet(now), now, Booting)
	wantNoEffects(t, effects)
	f := quiet(now)
	f.Steps = answer(VerbRestartService, StepRunning)
	op, _ = step(t, op, f, now, Booting)
	f.Steps = answer(VerbRestartService, StepDone)
	_, effects = step(t, op, f, now, Joining)
	wantOrder(t, effects, VerbPostLaunch)
	if op, _ = serviceOp(t, Done); op.Call.Number != 0 || len(op.Call.Applied) != 0 {
		t.Errorf("the platform was called: %d, %v", op.Call.Number, op.Call.Applied)
	}
}

// TestR115_AServiceThatIsNotRestarted: the agent reports a failure, the agent reports nothing, or the CVM boots
// automatically and starts every service again.
func TestR115_AServiceThatIsNotRestarted(t *testing.T) {
	op, now := serviceOp(t, Booting)
	f := quiet(now)
	f.Steps = answer(VerbRestartService, StepFailed)
	failed, effects := step(t, op, f, now, Failed)
	wantOrder(t, effects, VerbCancelDrain)
	if failed.Failure.Cause != CauseService {
		t.Errorf("cause %s", failed.Failure.Cause)
	}
	if o, ok := CurrentOrder(failed); !ok || o.Verb != VerbCancelDrain {
		t.Errorf("a drained member is not given back: %+v, %t", o, ok)
	}
	late := now.Add(limits.Service)
	if op, _ := step(t, op, quiet(late), late, Failed); op.Failure.Cause != CauseDeadline {
		t.Errorf("cause %s", op.Failure.Cause)
	}
	f = quiet(now)
	f.Admission.BootID = "boot-new"
	step(t, op, f, now, Joining)
	f.Admission.Revision = "B"
	step(t, op, f, now, Booting)
}

// TestR115_AServiceRestartRecordsItsBootAndItsOutage: the step records the Boot that holds the Slot, unless the Boot
// belongs to another instance, and the first time at which the member went away.
func TestR115_AServiceRestartRecordsItsBootAndItsOutage(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Operation, *Facts)
		boot string
	}{
		"the boot that runs":  {func(_ *Operation, f *Facts) { f.Admission.BootID = "boot-2" }, "boot-2"},
		"another instance's":  {func(_ *Operation, f *Facts) { f.Admission.BootID, f.Admission.InstanceID = "boot-2", "i-2" }, "boot-old"},
		"of no instance":      {func(op *Operation, f *Facts) { op.CVM.InstanceID, f.Admission.BootID = "", "boot-2" }, "boot-2"},
		"nobody is admitted":  {func(_ *Operation, f *Facts) { f.Admission = nil }, "boot-old"},
		"it was away already": {func(op *Operation, _ *Facts) { op.Outage.From = start.Add(-time.Hour) }, "boot-old"},
	} {
		op, now := serviceOp(t, Drained)
		op.Outage.From = time.Time{}
		f := quiet(now)
		c.edit(&op, &f)
		away := now
		if !op.Outage.From.IsZero() {
			away = op.Outage.From
		}
		op, _ = step(t, op, f, now, Booting)
		if op.Before.BootID != c.boot || !op.Outage.From.Equal(away) {
			t.Errorf("%s: boot %s, away since %s", name, op.Before.BootID, op.Outage.From)
		}
	}
}

// TestR115_TheAgentsMessageAboutAServiceIsTheReason: the step's reason is the agent's message.
func TestR115_TheAgentsMessageAboutAServiceIsTheReason(t *testing.T) {
	for said, want := range map[string]string{"": "the agent restarts service db", "waits for its port": "waits for its port"} {
		op, now := serviceOp(t, Booting)
		f := quiet(now)
		f.Steps = answer(VerbRestartService, StepRunning)
		f.Steps[0].Message = said
		if op, _ = step(t, op, f, now, Booting); op.Reason != want {
			t.Errorf("%q: %q", said, op.Reason)
		}
	}
	op, now := serviceOp(t, Booting)
	late := now.Add(limits.Service)
	f := quiet(late)
	f.Paused = true
	op, _ = step(t, op, f, late, Booting)
	if !op.Times.HealthyBy.Equal(late.Add(limits.Service)) {
		t.Errorf("paused, it has until %s", op.Times.HealthyBy)
	}
}
