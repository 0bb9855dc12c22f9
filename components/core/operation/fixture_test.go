package operation

import (
	"testing"
	"time"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var limits = Limits{Drain: 10 * time.Minute, Healthy: 10 * time.Minute, Service: 3 * time.Minute, MinReady: 30 * time.Second, Settle: 10 * time.Second, Unknown: 10 * time.Minute}

// begun returns a step of db-1 from A to B, recorded at start, after edits of its decision.
func begun(kind Kind, edits ...func(*Operation)) Operation {
	op := Operation{ID: "op", Rollout: "r", Group: "db", Slot: "db-1", Kind: kind, CVM: CVM{InstanceID: "i-1", VMUUID: "vm-1"},
		From: "A", To: "B", Attempt: 1, Term: 3, Before: Before{BootID: "boot-old"}}
	switch kind {
	case Create:
		op.CVM.InstanceID, op.CVM.VMUUID, op.From, op.Before.BootID = "", "", "", ""
	case Restart, Drain, Stop:
		op.From, op.To = "A", "A"
	case Delete:
		op.To = ""
	case Update, Replace:
	}
	for _, edit := range edits {
		edit(&op)
	}
	return op.Begun(limits.Drain, start)
}

// skipped: there is nothing to drain.
func skipped(op *Operation) { op.Way.SkipDrain = true }

// quiet returns facts in which nothing has happened to the old CVM and every check passes.
func quiet(now time.Time) Facts {
	return Facts{
		Term: 3, PlatformKnown: true, ObservedAt: now, WantedHash: "hash-B", Safe: true, Limits: limits,
		Platform:     &PlatformView{VMUUID: "vm-1", InstanceID: "i-1", Running: true, ComposeHash: "hash-A", UpdatedAt: start.Add(-time.Hour)},
		Admission:    &AdmissionView{BootID: "boot-old", Revision: "A", InstanceID: "i-1"},
		LastReportOf: "boot-old", LastReportAt: now,
		Readiness: Readiness{ReadySince: start.Add(-time.Hour)},
	}
}

// rebooting: the platform has a task in progress on the CVM.
func rebooting(now time.Time) Facts {
	f := quiet(now)
	f.Platform.Running, f.Platform.InProgress, f.Platform.ComposeHash = false, true, "hash-B"
	f.ReadySince, f.ReadyReason = time.Time{}, "the platform says updating, in progress"
	return f
}

// booted: the new Boot is admitted at B, not available yet.
func booted(now time.Time) Facts {
	f := quiet(now)
	f.Platform.ComposeHash, f.Platform.UpdatedAt = "hash-B", start.Add(time.Minute)
	f.Admission = &AdmissionView{BootID: "boot-new", Revision: "B", InstanceID: "i-1"}
	f.ReadySince, f.ReadyReason = time.Time{}, "member has not caught up"
	f.LastReportOf = "boot-new"
	return f
}

// available since the given time.
func available(now, since time.Time) Facts {
	f := booted(now)
	f.ReadySince, f.ReadyReason = since, ""
	return f
}

func answer(verb Verb, state StepState) []StepReport {
	return []StepReport{{Operation: "op", Verb: verb, Attempt: 1, State: state}}
}

// to brings op to the phase by the steps of a successful run.
func to(t *testing.T, kind Kind, phase Phase) (Operation, time.Time) {
	t.Helper()
	op, now := begun(kind), start
	for range 20 {
		if op.Phase == phase {
			return op, now
		}
		now = now.Add(time.Second)
		op, _ = Advance(op, happy(op, now), now)
	}
	t.Fatalf("%s does not reach %s; it is at %s: %s", kind, phase, op.Phase, op.Reason)
	return op, now
}

// happy returns the facts that advance op.
func happy(op Operation, now time.Time) Facts {
	f := quiet(now)
	if op.Kind == Create {
		f.Platform, f.Admission, f.ReadySince = nil, nil, time.Time{}
	}
	switch op.Phase {
	case Draining:
		f.Steps = answer(VerbDrain, StepDone)
	case Acting:
		f.Call = &CallResult{Number: op.Call.Number, Outcome: OutcomeDone, VMUUID: "vm-1", InstanceID: "i-1"}
	case Booting, Joining, Settling:
		f = available(now, op.Entered[Joining])
		if op.Phase == Settling {
			f = available(now, now.Add(-time.Hour))
		}
		if op.Kind == Delete {
			f.Platform = nil
		}
		f.Admission.Revision = op.To
	case Drained, Done, Aborted, Failed, "":
	}
	return f
}

// step advances once and checks the phase.
func step(t *testing.T, op Operation, f Facts, now time.Time, want Phase) (Operation, []Effect) {
	t.Helper()
	next, effects := Advance(op, f, now)
	if next.Phase != want {
		t.Fatalf("%s went to %s (%s), want %s", op.Phase, next.Phase, next.Reason, want)
	}
	return next, effects
}

func wantNoEffects(t *testing.T, effects []Effect) {
	t.Helper()
	if len(effects) != 0 {
		t.Errorf("effects %+v, want none", effects)
	}
}

func wantCall(t *testing.T, effects []Effect, kind Kind, number int) {
	t.Helper()
	part := map[Kind]Part{Create: PartCreate, Update: PartCompose, Restart: PartRestart, Delete: PartDelete}[kind]
	if len(effects) != 1 || effects[0].Kind != CallPlatform || effects[0].Call != part || effects[0].Number != number {
		t.Errorf("effects %+v, want one %s call numbered %d", effects, kind, number)
	}
}

func wantOrder(t *testing.T, effects []Effect, verb Verb) {
	t.Helper()
	if len(effects) != 1 || effects[0].Kind != SendOrder || effects[0].Verb != verb {
		t.Errorf("effects %+v, want the order %s", effects, verb)
	}
}
