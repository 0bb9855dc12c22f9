package operation_test

import (
	"testing"
	"time"

	"cadre.dev/core/operation"
)

// drained is a Drain that took the Boot b1 out of service.
func drained(at time.Time) operation.Operation {
	return operation.Operation{
		ID: "web-1.3.web-1", Group: "web", Slot: "web-1", Kind: operation.Drain, Actor: operation.ActorOperator, Attempt: 1, Term: 1,
		Phase: operation.Drained, BootBefore: "b1", InstanceID: "i1", CreatedAt: at,
		Entered: operation.PhaseTimes{operation.Recorded: at, operation.Draining: at, operation.Drained: at},
	}
}

// Whoever leads and whatever is paused, a drained Slot stays out, without a platform call, and
// goes back into service once it is not wanted any more: the order for it stands until
// another Operation comes.
func TestR139_ADrainStaysUntilItIsTakenBack(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f := operation.Facts{Term: 2, PlatformKnown: true, Safe: true, Paused: true, Admission: &operation.AdmissionView{BootID: "b1", InstanceID: "i1"},
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

// Each Boot of a drained Slot is drained, with an order of its own; one that cannot be stays
// in the operator's hands.
func TestR139_AnotherBootIsDrainedToo(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f := operation.Facts{Term: 1, PlatformKnown: true, Safe: true, Admission: &operation.AdmissionView{BootID: "b2", InstanceID: "i1"},
		Limits: operation.Limits{Drain: time.Minute}}
	op, effects := operation.Advance(drained(at), f, at)
	if op.Phase != operation.Draining || op.Attempt != 2 || op.BootBefore != "b2" || len(effects) != 1 {
		t.Fatalf("is %s, attempt %d, of boot %s, effects %v", op.Phase, op.Attempt, op.BootBefore, effects)
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

// A drained member that leads again hands over again, but not without a pause between.
func TestR139_ADrainedMemberGivesLeadershipAway(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f := operation.Facts{Term: 1, PlatformKnown: true, Safe: true, Admission: &operation.AdmissionView{BootID: "b1", InstanceID: "i1"},
		HandOver: &operation.Transfer{ExpectedLeader: "web-1", Candidates: []string{"web-2"}}, Limits: operation.Limits{Drain: time.Minute}}
	if op, _ := operation.Advance(drained(at), f, at.Add(time.Second)); op.Phase != operation.Drained {
		t.Fatalf("is %s after a second", op.Phase)
	}
	op, _ := operation.Advance(drained(at), f, at.Add(time.Minute))
	if o, ok := operation.CurrentOrder(op); !ok || o.ExpectedLeader != "web-1" || len(o.Candidates) != 1 || o.Attempt != 2 {
		t.Fatalf("is %s, orders %+v, %v", op.Phase, o, ok)
	}
}
