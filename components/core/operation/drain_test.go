package operation_test

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/core/operation"
)

// drained is a Drain that took the Boot b1 out of service.
func drained(at time.Time) operation.Operation {
	return operation.Operation{
		ID: "web-1.3.web-1", Group: "web", Slot: "web-1", Kind: operation.Drain, Actor: operation.ActorOperator, Attempt: 1, Term: 1,
		Phase: operation.Drained, Before: operation.Before{BootID: "b1"}, CVM: operation.CVM{InstanceID: "i1"}, Times: operation.Times{Created: at},
		Entered: operation.PhaseTimes{operation.Draining: at, operation.Drained: at},
	}
}

// TestR139_ADrainStaysUntilItIsTakenBack: a drained Slot stays out of service under any leader and any pause, without
// a platform call. It returns to service once the drain is not wanted. The return order stands until another Operation
// comes.
func TestR139_ADrainStaysUntilItIsTakenBack(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f := operation.Facts{Term: 2, PlatformKnown: true, Safe: true, Will: operation.Will{Paused: true}, Admission: &operation.AdmissionView{BootID: "b1", InstanceID: "i1"},
		Limits: operation.Limits{Drain: time.Minute}}
	op := drained(at)
	for range 3 {
		at = at.Add(time.Hour)
		next, effects := operation.Advance(op, f, at)
		if next.Phase != operation.Drained || len(effects) != 0 {
			t.Fatalf("is %s with effects %v", next.Phase, effects)
		}
		if o, ok := operation.CurrentOrder(next); !ok || o.Verb != operation.VerbDrain || o.Attempt != 1 {
			t.Fatalf("orders %+v, %v", o, ok)
		}
		op = next
	}
	f.Unwanted = "undrained"
	next, effects := operation.Advance(op, f, at)
	if next.Phase != operation.Done || len(effects) != 1 || effects[0].Verb != operation.VerbCancelDrain {
		t.Fatalf("is %s with effects %+v", next.Phase, effects)
	}
	if o, ok := operation.CurrentOrder(next); !ok || o.Verb != operation.VerbCancelDrain {
		t.Fatalf("orders %+v, %v", o, ok)
	}
}

// TestR139_AnotherBootIsDrainedToo: each Boot of a drained Slot gets a drain order of its own. If that drain fails,
// the operator decides.
func TestR139_AnotherBootIsDrainedToo(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f := operation.Facts{Term: 1, PlatformKnown: true, Safe: true, Admission: &operation.AdmissionView{BootID: "b2", InstanceID: "i1"},
		Limits: operation.Limits{Drain: time.Minute}}
	op, effects := operation.Advance(drained(at), f, at)
	if op.Phase != operation.Draining || op.Attempt != 2 || op.Before.BootID != "b2" || len(effects) != 1 {
		t.Fatalf("is %s, attempt %d, of boot %s, effects %v", op.Phase, op.Attempt, op.Before.BootID, effects)
	}
	failed := f
	failed.Steps = []operation.StepReport{{Operation: op.ID, Verb: operation.VerbDrain, Attempt: 2, State: operation.StepFailed, Message: "no"}}
	for name, f := range map[string]operation.Facts{"fails": failed, "is overdue": f} {
		next, effects := operation.Advance(op, f, at.Add(2*time.Minute))
		if next.Phase != operation.Drained || len(effects) != 0 {
			t.Errorf("a drain that %s: is %s with effects %v", name, next.Phase, effects)
		}
	}
}

// TestR139_ADrainedMemberGivesLeadershipAway: a drained member that leads again hands over again, after a pause.
func TestR139_ADrainedMemberGivesLeadershipAway(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f := operation.Facts{Term: 1, PlatformKnown: true, Safe: true, Admission: &operation.AdmissionView{BootID: "b1", InstanceID: "i1"},
		Leadership: operation.Leadership{HandOver: &operation.Transfer{ExpectedLeader: "web-1", Candidates: []string{"web-2"}}}, Limits: operation.Limits{Drain: time.Minute}}
	if op, _ := operation.Advance(drained(at), f, at.Add(time.Second)); op.Phase != operation.Drained {
		t.Fatalf("is %s after a second", op.Phase)
	}
	op, _ := operation.Advance(drained(at), f, at.Add(time.Minute))
	if o, ok := operation.CurrentOrder(op); !ok || o.ExpectedLeader != "web-1" || len(o.Candidates) != 1 || o.Attempt != 2 {
		t.Fatalf("is %s, orders %+v, %v", op.Phase, o, ok)
	}
}

// TestR139_ASlotWhoseDrainFailedIsNotDrained: a failed drain stays recorded as failed at the next evaluation. Its
// reason stays until a drain succeeds or another drain is ordered, under any leader, and with or without reports.
func TestR139_ASlotWhoseDrainFailedIsNotDrained(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f := operation.Facts{Term: 1, PlatformKnown: true, Safe: true, Admission: &operation.AdmissionView{BootID: "b2", InstanceID: "i1"},
		Limits: operation.Limits{Drain: time.Minute}}
	again, _ := operation.Advance(drained(at), f, at)
	answer := func(state operation.StepState) operation.Facts {
		f := f
		f.Steps = []operation.StepReport{{Operation: again.ID, Verb: operation.VerbDrain, Attempt: 2, State: state, Message: "no room"}}
		return f
	}
	for name, c := range map[string]struct {
		came operation.Facts
		why  string
	}{
		"failed":     {answer(operation.StepFailed), "could not be drained again: no room"},
		"called off": {answer(operation.StepAborted), "could not be drained again: no room"},
		"overdue":    {f, "could not be drained again: the drain did not end in time"},
	} {
		op, _ := operation.Advance(again, c.came, at.Add(2*time.Minute))
		for _, next := range []operation.Facts{c.came, f, c.came} {
			if !op.NotDrained() || !strings.HasPrefix(op.Reason, c.why) {
				t.Fatalf("%s: not drained %t, %q", name, op.NotDrained(), op.Reason)
			}
			op, _ = operation.Advance(op, next, at.Add(3*time.Minute))
		}
		if late, _ := operation.Advance(op, answer(operation.StepDone), at.Add(4*time.Minute)); late.NotDrained() || late.Reason != "out of service until it is undrained" {
			t.Errorf("%s, then done: not drained %t, %q", name, late.NotDrained(), late.Reason)
		}
		other := f
		other.Admission = &operation.AdmissionView{BootID: "b3", InstanceID: "i1"}
		if next, _ := operation.Advance(op, other, at.Add(4*time.Minute)); next.Phase != operation.Draining || next.Failure.Cause != "" {
			t.Errorf("%s, then another boot: %s, cause %q", name, next.Phase, next.Failure.Cause)
		}
	}
	f.Admission.BootID, f.Leads = "b1", true
	op, _ := operation.Advance(drained(at), f, at.Add(time.Hour))
	if op.Phase != operation.Drained || !strings.HasPrefix(op.Reason, "leads, and nobody can take over") {
		t.Errorf("leads: %s, %q", op.Phase, op.Reason)
	}
}

// TestR139_ADrainedSlotNamesItsReasonAndDrain: the Operation of a drained Slot has the reason, the time at which
// the Slot went out of service, and the hand-over of its leadership.
func TestR139_ADrainedSlotNamesItsReasonAndDrain(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f := operation.Facts{Term: 1, PlatformKnown: true, Safe: true, Admission: &operation.AdmissionView{BootID: "b1", InstanceID: "i1"},
		Limits: operation.Limits{Drain: time.Minute}}
	op, _ := operation.Advance(drained(at), f, at.Add(time.Minute))
	if !op.Outage.From.Equal(at.Add(time.Minute)) || op.Reason != "out of service until it is undrained" {
		t.Errorf("away since %s: %q", op.Outage.From, op.Reason)
	}
	if op, _ = operation.Advance(op, f, at.Add(time.Hour)); !op.Outage.From.Equal(at.Add(time.Minute)) {
		t.Errorf("away since %s", op.Outage.From)
	}
	leads := f
	leads.Leads, leads.HandOver = true, &operation.Transfer{ExpectedLeader: "web-1", Candidates: []string{"web-2"}}
	op, _ = operation.Advance(drained(at), leads, at.Add(time.Second))
	if op.Phase != operation.Drained || op.Reason != "leads again, and is asked to hand over after a moment" {
		t.Errorf("leads: %s, %q", op.Phase, op.Reason)
	}
	// A hand-over that missed its deadline gets an order with a deadline of its own.
	op, effects := operation.Advance(drained(at), leads, at.Add(time.Hour))
	if op.Phase != operation.Draining || !op.Times.DrainBy.Equal(at.Add(time.Hour+time.Minute)) || len(effects) != 1 || effects[0].Verb != operation.VerbDrain {
		t.Errorf("%s until %s, effects %+v", op.Phase, op.Times.DrainBy, effects)
	}
	done := f
	done.Steps = []operation.StepReport{{Operation: op.ID, Verb: operation.VerbDrain, Attempt: 2, State: operation.StepDone, Transferred: true, NewLeader: "web-2"}}
	if op, _ = operation.Advance(op, done, at.Add(time.Hour)); op.Phase != operation.Drained || !op.Transfer.Made || op.Transfer.To != "web-2" {
		t.Errorf("%s, transfer %+v", op.Phase, op.Transfer)
	}
}

// TestR139_ASilentSlotIsDrainedWhenItServes: a Slot was silent when the Operation took the Slot out of service. The
// Slot is drained once it serves, as leader or as follower.
func TestR139_ASilentSlotIsDrainedWhenItServes(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f := operation.Facts{Term: 1, PlatformKnown: true, Safe: true, Admission: &operation.AdmissionView{BootID: "b1", InstanceID: "i1"},
		Limits: operation.Limits{Drain: time.Minute}}
	silent := drained(at)
	silent.Way.SkipDrain = true
	silent.Entered = operation.PhaseTimes{operation.Drained: at}
	if op, _ := operation.Advance(silent, f, at); op.Phase != operation.Drained || !strings.Contains(op.Reason, "no hook ran") {
		t.Errorf("silent: %s: %s", op.Phase, op.Reason)
	}
	f.ReadySince = at
	op, _ := operation.Advance(silent, f, at)
	if o, ok := operation.CurrentOrder(op); op.Phase != operation.Draining || !ok || o.Verb != operation.VerbDrain {
		t.Errorf("serves: %s, orders %+v, %v", op.Phase, o, ok)
	}
	if op, _ = operation.Advance(drained(at), f, at); op.Phase != operation.Drained {
		t.Errorf("one that was drained and is ready: %s", op.Phase)
	}
	// No Boot is admitted, so the step waits.
	f.Admission, f.ReadySince = nil, time.Time{}
	if op, _ = operation.Advance(drained(at), f, at); op.Phase != operation.Drained {
		t.Errorf("nobody is admitted: %s", op.Phase)
	}
}

// TestR139_ADrainAfterTheFirstOne: the step waits for a later drain, and reports a hook that holds it. The drain ends
// when its Boot is gone.
func TestR139_ADrainAfterTheFirstOne(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f := operation.Facts{Term: 1, PlatformKnown: true, Safe: true, Admission: &operation.AdmissionView{BootID: "b2", InstanceID: "i1"},
		Limits: operation.Limits{Drain: time.Minute}}
	op, _ := operation.Advance(drained(at), f, at)
	for state, want := range map[operation.StepState]string{
		operation.StepHeld:    "held by a hook: an operator must decide; complete the hook, or put the slot back with cadre instance undrain web-1",
		operation.StepRunning: "the agent drains",
	} {
		said := f
		said.Steps = []operation.StepReport{{Operation: op.ID, Verb: operation.VerbDrain, Attempt: 2, State: state}}
		if next, _ := operation.Advance(op, said, at.Add(time.Second)); next.Phase != operation.Draining || next.Reason != want {
			t.Errorf("%s: %s, %q", state, next.Phase, next.Reason)
		}
	}
	gone := f
	gone.Gone = true
	if next, _ := operation.Advance(op, gone, at.Add(time.Second)); next.Phase != operation.Drained || !next.NotDrained() {
		t.Errorf("its boot is gone: %s", next.Phase)
	}
	if next, _ := operation.Advance(op, f, at.Add(time.Minute-1)); next.Phase != operation.Draining {
		t.Errorf("before its time is over: %s", next.Phase)
	}
	if next, _ := operation.Advance(op, f, at.Add(time.Minute)); next.Phase != operation.Drained {
		t.Errorf("when its time is over: %s", next.Phase)
	}
}
