package operation

import (
	"strings"
	"testing"
	"time"
)

func TestHappyPathOfEachKind(t *testing.T) {
	for kind, want := range map[Kind]string{
		Update:  "DRAINING DRAINED ACTING BOOTING JOINING SETTLING DONE",
		Restart: "DRAINING DRAINED ACTING BOOTING JOINING SETTLING DONE",
		Create:  "DRAINED ACTING BOOTING JOINING SETTLING DONE",
		Delete:  "DRAINING DRAINED ACTING BOOTING DONE",
	} {
		op, now := begun(kind), start
		phases := []string{string(op.Phase)}
		calls := 0
		for range 20 {
			now = now.Add(limits.MinReady)
			next, effects := Advance(op, happy(op, now), now)
			if next.Phase != op.Phase {
				phases = append(phases, string(next.Phase))
			}
			for _, e := range effects {
				if e.Kind == CallPlatform {
					calls++
				}
			}
			op = next
		}
		if got := strings.Join(phases, " "); got != want || calls != 1 {
			t.Errorf("%s: %s with %d calls, want %s with one", kind, got, calls, want)
		}
		for _, p := range strings.Fields(want) {
			if op.Entered[Phase(p)].IsZero() {
				t.Errorf("%s: %s has no time", kind, p)
			}
		}
		if kind == Update && (op.Outage.From.IsZero() || !op.Outage.Until.After(op.Outage.From) || op.Seen.RunningSince.IsZero()) {
			t.Errorf("%s: unavailable %s to %s, running %s", kind, op.Outage.From, op.Outage.Until, op.Seen.RunningSince)
		}
	}
}

func TestR78_EveryDisruptionDrainsFirstAndEveryBootRunsPostLaunch(t *testing.T) {
	for _, kind := range []Kind{Update, Restart, Delete} {
		op := begun(kind)
		if o, ok := CurrentOrder(op); !ok || o.Verb != VerbDrain || o.Attempt != 1 || !o.Deadline.Equal(op.Times.DrainBy) {
			t.Errorf("%s: order %+v %t", kind, o, ok)
		}
	}
	for _, kind := range []Kind{Create, Update, Restart} {
		op, now := to(t, kind, Booting)
		f := booted(now)
		f.Admission.Revision, f.PostLaunch = op.To, true
		op, effects := step(t, op, f, now, Joining)
		wantOrder(t, effects, VerbPostLaunch)
		if o, ok := CurrentOrder(op); !ok || o.Verb != VerbPostLaunch {
			t.Errorf("%s: order %+v %t", kind, o, ok)
		}
		f = available(now, now)
		f.Admission.Revision, f.PostLaunch = op.To, true
		op, _ = step(t, op, f, now, Joining) // available, but the hook has not answered
		f.Steps = answer(VerbPostLaunch, StepDone)
		step(t, op, f, now, Settling)
	}
}

func TestR79_TheDrainDeadlineIsAbsolute(t *testing.T) {
	op, now := to(t, Update, Draining)
	deadline := op.Times.DrainBy
	for range 5 { // heartbeats, and a change of leader in between
		now = now.Add(time.Minute)
		f := quiet(now)
		f.Term = op.Term + 1
		f.Steps = answer(VerbDrain, StepRunning)
		op, _ = step(t, op, f, now, Draining)
	}
	if !op.Times.DrainBy.Equal(deadline) {
		t.Errorf("the deadline moved from %s to %s", deadline, op.Times.DrainBy)
	}
	f := quiet(deadline)
	f.Term = op.Term
	op, effects := step(t, op, f, deadline, Aborted)
	wantOrder(t, effects, VerbCancelDrain)
	if op.Failure.Cause != CauseDrainDeadline || !op.Outage.From.IsZero() {
		t.Errorf("cause %s, unavailable from %s", op.Failure.Cause, op.Outage.From)
	}
}

func TestR80_ResultsOfTheDrain(t *testing.T) {
	for state, want := range map[StepState]Phase{StepDone: Drained, StepAborted: Aborted, StepFailed: Aborted, StepHeld: Draining, StepRunning: Draining, "": Draining} {
		op, now := to(t, Update, Draining)
		f := quiet(now)
		f.Steps = answer(VerbDrain, state)
		op, effects := step(t, op, f, now, want)
		if want == Aborted {
			wantOrder(t, effects, VerbCancelDrain)
			if op.Failure.Cause != CauseHook {
				t.Errorf("%s: cause %s", state, op.Failure.Cause)
			}
			if o, ok := CurrentOrder(op); !ok || o.Verb != VerbCancelDrain {
				t.Errorf("%s: after the abort the order is %+v %t", state, o, ok)
			}
		} else {
			wantNoEffects(t, effects)
		}
	}
}

// TestR80_AHookEndsNoHealing: when a hook answers ABANDON, an unhealthy member is drained again without hooks. A
// holding hook keeps holding. A failed hand-over, or a hook against a step of another Kind, ends the drain.
func TestR80_AHookEndsNoHealing(t *testing.T) {
	for name, c := range map[string]struct {
		kind  Kind
		actor Actor
		state StepState
		want  Phase
		anew  bool
	}{
		"a hook abandons":      {Restart, ActorHealing, StepAborted, Draining, true},
		"a hook holds":         {Restart, ActorHealing, StepHeld, Draining, false},
		"the hand-over failed": {Restart, ActorHealing, StepFailed, Aborted, false},
		"a person's restart":   {Restart, ActorOperator, StepAborted, Aborted, false},
		"a disk is given up":   {Replace, ActorHealing, StepAborted, Aborted, false},
	} {
		op, now := to(t, c.kind, Draining)
		op.Actor = c.actor
		f := quiet(now)
		f.Steps = answer(VerbDrain, c.state)
		next, _ := Advance(op, f, now)
		if o, _ := CurrentOrder(next); next.Phase != c.want || o.WithoutHooks != c.anew {
			t.Errorf("%s: %s, order %+v: %s", name, next.Phase, o, next.Reason)
		}
	}
	op, now := to(t, Restart, Draining)
	op.Actor = ActorHealing
	f := quiet(now)
	f.Steps = answer(VerbDrain, StepAborted)
	op, effects := step(t, op, f, now, Draining)
	wantOrder(t, effects, VerbDrain)
	if o, ok := CurrentOrder(op); !ok || o.Attempt != 2 || o.Limit != f.Limits.Drain {
		t.Errorf("order %+v", o)
	}
	_, effects = step(t, op, f, now, Draining) // the answer to the first order
	wantNoEffects(t, effects)
	f.Steps[0].Attempt = 2
	_, effects = step(t, op, f, now, Aborted) // its agent does not know such an order
	wantOrder(t, effects, VerbCancelDrain)
	f.Steps = []StepReport{{Operation: op.ID, Verb: VerbDrain, Attempt: 2, State: StepDone}}
	op, _ = step(t, op, f, now, Drained)
	_, effects = step(t, op, f, now, Acting)
	wantCall(t, effects, Restart, 1)
}

func TestR80_AHoldWaitsForAnOperatorBeyondTheDeadline(t *testing.T) {
	op, _ := to(t, Update, Draining)
	later := op.Times.DrainBy.Add(time.Hour)
	f := quiet(later)
	f.Steps = answer(VerbDrain, StepHeld)
	op, effects := step(t, op, f, later, Draining)
	wantNoEffects(t, effects)
	if !strings.Contains(op.Reason, "held") {
		t.Errorf("reason %q", op.Reason)
	}
	f.Paused = true
	_, effects = step(t, op, f, later, Aborted)
	wantOrder(t, effects, VerbCancelDrain)
}

func TestR81_AnswersToAnotherOrderAreNoOps(t *testing.T) {
	for name, edit := range map[string]func(*StepReport){
		"another operation": func(s *StepReport) { s.Operation = "other" },
		"another attempt":   func(s *StepReport) { s.Attempt = 2 },
		"another verb":      func(s *StepReport) { s.Verb = VerbPostLaunch },
	} {
		op, now := to(t, Update, Draining)
		f := quiet(now)
		f.Steps = answer(VerbDrain, StepDone)
		edit(&f.Steps[0])
		next, effects := step(t, op, f, now, Draining)
		wantNoEffects(t, effects)
		if !Same(op, next) {
			t.Errorf("%s: the record changed", name)
		}
	}
}

func TestR82_NoLongerWantedReturnsToServiceBeforeActing(t *testing.T) {
	for _, phase := range []Phase{Draining, Drained} {
		op, now := to(t, Update, phase)
		f := quiet(now)
		f.Unwanted = "the spec moved on"
		op, effects := step(t, op, f, now, Aborted)
		wantOrder(t, effects, VerbCancelDrain)
		if op.Failure.Cause != CauseUnwanted || op.Call.Number != 0 {
			t.Errorf("%s: cause %s, %d calls", phase, op.Failure.Cause, op.Call.Number)
		}
		again, effects := Advance(op, f, now)
		wantNoEffects(t, effects) // the cancel is sent once
		if !Same(op, again) {
			t.Error("an ended operation changed")
		}
	}
}

func TestR92_PauseReturnsToServiceBeforeActingAndFinishesAfter(t *testing.T) {
	for phase, want := range map[Phase]Phase{Draining: Aborted, Drained: Aborted, Booting: Joining, Joining: Settling, Settling: Done} {
		op, now := to(t, Update, phase)
		now = now.Add(limits.MinReady)
		f := happy(op, now)
		f.Paused = true
		op, _ = step(t, op, f, now, want)
		if want == Aborted && op.Failure.Cause != CausePaused {
			t.Errorf("%s: cause %s", phase, op.Failure.Cause)
		}
	}
}

func TestR86_ADrainedMemberMayDrainAgain(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := quiet(now)
	f.Steps = answer(VerbDrain, StepRunning)
	deadline := op.Times.DrainBy
	op, effects := step(t, op, f, now, Draining)
	wantNoEffects(t, effects)
	if !op.Times.DrainBy.Equal(deadline) {
		t.Error("the deadline moved")
	}
}

func TestR50_TheSecondLookHoldsTheCallUntilItIsSafe(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := quiet(now)
	f.Safe, f.SafeReason = false, "quorum: 1 of 3 voters healthy, 2 needed"
	op, effects := step(t, op, f, now, Drained)
	wantNoEffects(t, effects)
	if !strings.Contains(op.Reason, "quorum") {
		t.Errorf("reason %q", op.Reason)
	}
	op2, effects := step(t, op, quiet(now), now, Acting)
	wantCall(t, effects, Update, 1)
	if op2.Call.IssuedAt != now || op2.Call.Number != 1 {
		t.Errorf("issued %s, %d calls", op2.Call.IssuedAt, op2.Call.Number)
	}
	late := op.Times.DrainBy
	f = quiet(late)
	f.Safe = false
	op, effects = step(t, op, f, late, Aborted)
	wantOrder(t, effects, VerbCancelDrain)
	if op.Failure.Cause != CauseUnsafe {
		t.Errorf("cause %s", op.Failure.Cause)
	}
}

// TestR74_AnImpossibleStepIsCalledOffAtOnce: no member stays out of service for an impossible call. A half-done change
// goes on.
func TestR74_AnImpossibleStepIsCalledOffAtOnce(t *testing.T) {
	for _, phase := range []Phase{Draining, Drained} {
		op, now := to(t, Update, phase)
		f := quiet(now)
		f.Refused = "no such image"
		if next, _ := step(t, op, f, now, Aborted); next.Failure.Cause != CausePrecondition || next.Reason != f.Refused {
			t.Errorf("%s: %s: %s", phase, next.Failure.Cause, next.Reason)
		}
		f.Safe, f.SafeReason = false, f.Refused
		op.Call.Applied = []Part{PartResources}
		if next, _ := Advance(op, f, now); next.Phase.Ended() {
			t.Errorf("%s with half of it done: %s (%s)", phase, next.Phase, next.Reason)
		}
	}
	op, now := to(t, Update, Acting)
	f := quiet(now)
	f.Refused = "no such image"
	if reason, ok := MayCall(op, f); ok || reason != f.Refused {
		t.Errorf("right before the call: %q, %t", reason, ok)
	}
	op.Call.Outcome = OutcomeBusy
	if op, _ = step(t, op, f, now.Add(time.Minute), Aborted); op.Failure.Cause != CausePrecondition {
		t.Errorf("asked again: %s", op.Failure.Cause)
	}
}

// TestR74_AStepWaitsForASilentPlatform: a step waits for the platform's answer as long as it waits for a safe state.
func TestR74_AStepWaitsForASilentPlatform(t *testing.T) {
	unmet := func(at time.Time) Facts {
		f := quiet(at)
		f.Safe, f.Unmet = false, true
		return f
	}
	op, now := to(t, Update, Drained)
	step(t, op, unmet(now), now, Drained)
	if next, _ := step(t, op, unmet(op.Times.DrainBy), op.Times.DrainBy, Aborted); next.Failure.Cause != CausePrecondition {
		t.Errorf("cause %s", next.Failure.Cause)
	}
	op, _ = to(t, Update, Acting)
	op.Call.Outcome = OutcomeBusy
	late := op.Times.DrainBy.Add(limits.Unknown)
	if next, _ := step(t, op, unmet(late), late, Aborted); next.Failure.Cause != CausePrecondition {
		t.Errorf("asked again: %s", next.Failure.Cause)
	}
}

func TestR50_BlindnessIsNotSafety(t *testing.T) {
	for name, edit := range map[string]func(*Facts){
		"platform not listed": func(f *Facts) { f.PlatformKnown = false },
		"no CVM":              func(f *Facts) { f.Platform = nil },
		"CVM busy":            func(f *Facts) { f.Platform.InProgress = true },
		"zero facts":          func(f *Facts) { *f = Facts{Term: 3} },
	} {
		op, now := to(t, Update, Drained)
		f := quiet(now)
		edit(&f)
		_, effects := step(t, op, f, now, Drained)
		if len(effects) > 0 {
			t.Errorf("%s: effects %+v", name, effects)
		}
	}
}

func TestR53_TheTransferIsRecorded(t *testing.T) {
	op := begun(Update)
	op.Transfer = &Transfer{ExpectedLeader: "db-1", Candidates: []string{"db-0", "db-2"}}
	op, _ = step(t, op, quiet(start), start, Draining)
	if o, _ := CurrentOrder(op); o.ExpectedLeader != "db-1" || len(o.Candidates) != 2 {
		t.Errorf("order %+v", o)
	}
	f := quiet(start)
	f.Steps = answer(VerbDrain, StepRunning)
	f.Steps[0].Transferred, f.Steps[0].NewLeader = true, "db-0"
	before := op
	op, _ = step(t, op, f, start, Draining)
	if !op.Transfer.Made || op.Transfer.To != "db-0" {
		t.Errorf("transfer %+v", op.Transfer)
	}
	if before.Transfer.Made {
		t.Error("the record before was changed in place")
	}
}

func TestR54_NoTransferIsNotedThatWasNotAskedFor(t *testing.T) {
	op, now := to(t, Update, Draining)
	f := quiet(now)
	f.Steps = answer(VerbDrain, StepDone)
	f.Steps[0].Transferred, f.Steps[0].NewLeader = true, "db-0"
	op, _ = step(t, op, f, now, Drained)
	if op.Transfer != nil {
		t.Errorf("transfer %+v", op.Transfer)
	}
}

// TestR105_ANewerSpecChangesTheOpenOperation: the permission to disrupt stays, and its goal, drain and deadlines are
// the next ones. No late answer counts for the next call or drain.
func TestR105_ANewerSpecChangesTheOpenOperation(t *testing.T) {
	for _, phase := range []Phase{Booting, Joining, Settling} {
		op, now := to(t, Update, phase)
		goal := Operation{ID: "another", Kind: Update, To: "r3", Attempt: 1, Way: Way{SkipDrain: true}}.Begun(time.Minute, now)
		next := op.Retarget(goal)
		if next.ID != op.ID || !next.Times.Created.Equal(op.Times.Created) || next.Attempt <= op.Attempt || next.Call.Number != op.Call.Number {
			t.Errorf("%s: %+v", phase, next)
		}
		if next.To != "r3" || next.Phase != Drained || len(next.Call.Applied) > 0 || !next.Times.DrainBy.Equal(now.Add(time.Minute)) || !next.Entered[Booting].IsZero() {
			t.Errorf("%s: %+v", phase, next)
		}
		op.Actor, op.Request = ActorOperator, Request{ID: "r"}
		if answers := op.Retarget(goal); answers.Request.ID != "r" || answers.Actor == ActorOperator {
			t.Errorf("%s: it answers %+v on behalf of %s", phase, answers.Request, answers.Actor)
		}
		goal.Way.SkipDrain = false
		if drains := op.Retarget(goal.Begun(time.Minute, now)); drains.Phase != Draining || !drains.Entered[Booting].IsZero() {
			t.Errorf("%s: %+v", phase, drains)
		}
		if open := op.Outage.Until.IsZero(); open && next.Outage != op.Outage || !open && next.Outage != (Outage{}) {
			t.Errorf("%s: outage %+v, was %+v", phase, next.Outage, op.Outage)
		}
		f := quiet(now)
		f.WantedHash = "hash-3"
		f.Call = &CallResult{Number: op.Call.Number, Outcome: OutcomeRefused} // the answer to the former call
		next, effects := step(t, next, f, now, Acting)
		if len(effects) != 1 || effects[0].Number != op.Call.Number+1 {
			t.Fatalf("%s: %+v", phase, effects)
		}
		if next, _ = Advance(next, f, now); next.Call.Outcome != "" {
			t.Errorf("%s: a late answer decides the next call: %q", phase, next.Call.Outcome)
		}
	}
}

// TestR79_ADrainEndsWithTheBootItWasFor: a gone Boot cannot answer its drain. Its instance proved that it runs another
// Boot, so the wait ends.
func TestR79_ADrainEndsWithTheBootItWasFor(t *testing.T) {
	op, now := to(t, Update, Draining)
	f := quiet(now)
	f.Steps, f.Gone = nil, true
	op, effects := step(t, op, f, now, Drained)
	wantNoEffects(t, effects)
	f.Safe = false // the precommit check still decides about the call
	_, effects = step(t, op, f, now, Drained)
	wantNoEffects(t, effects)
	f.Paused = true
	step(t, op, f, now, Aborted)
}

// TestR60_TheFirstRecordOfAStep: an existing agent gets its order with the record, and the order's deadline stands. A
// step without a drain waits for its call.
func TestR60_TheFirstRecordOfAStep(t *testing.T) {
	for name, c := range map[string]struct {
		op   Operation
		want Phase
	}{
		"an update":             {Operation{Kind: Update}, Draining},
		"a drain":               {Operation{Kind: Drain}, Draining},
		"a removal":             {Operation{Kind: Delete}, Draining},
		"of a member that fell": {Operation{Kind: Update, Way: Way{SkipDrain: true}}, Drained},
		"a refresh":             {Operation{Kind: Update, Way: Way{Mode: ModeRefresh}}, Drained},
		"a creation":            {Operation{Kind: Create}, Drained},
	} {
		op := c.op.Begun(time.Minute, start)
		order, asked := CurrentOrder(op)
		if op.Phase != c.want || !op.Entered[c.want].Equal(start) || !op.Times.Created.Equal(start) || !op.Times.DrainBy.Equal(start.Add(time.Minute)) {
			t.Errorf("%s: %+v", name, op)
		}
		if asked != (c.want == Draining) || asked && (order.Verb != VerbDrain || order.Limit != time.Minute) {
			t.Errorf("%s: ordered %+v, %t", name, order, asked)
		}
	}
}

// TestR80_ADrainThatAHookHoldsNamesTheWayOut: the one command that ends the hold of this step.
func TestR80_ADrainThatAHookHoldsNamesTheWayOut(t *testing.T) {
	for want, c := range map[string]struct {
		kind Kind
		edit func(*Operation, *Facts)
	}{
		"complete the hook, or pause the group or change the spec to call it off": {Update, func(*Operation, *Facts) {}},
		"its member was told to leave its set, so it is not called off":           {Replace, func(op *Operation, _ *Facts) { op.Set.Leaves = true }},
		"half of the change is there, so it is not called off":                    {Update, func(op *Operation, _ *Facts) { op.Call.Applied = []Part{PartResources} }},
		"cadre instance undrain db-1":                                             {Drain, func(*Operation, *Facts) {}},
		"cadre group delete db --cancel":                                          {Delete, func(_ *Operation, f *Facts) { f.Ending = true }},
		"cadre freeze db":                                                         {Restart, func(op *Operation, _ *Facts) { op.Actor = ActorHealing }},
		"complete the hook, or call it off with cadre freeze db":                  {Restart, func(op *Operation, _ *Facts) { op.Actor, op.Before.Unavailable = ActorOperator, true }},
		"complete the hook, or call it off with cadre instance protect db-1":      {Restart, func(op *Operation, _ *Facts) { op.Actor = ActorOperator }},
	} {
		op, now := to(t, c.kind, Draining)
		f := quiet(now)
		f.Steps = answer(VerbDrain, StepHeld)
		f.Steps[0].Message = "a backup runs"
		c.edit(&op, &f)
		op, _ = step(t, op, f, now, Draining)
		if !strings.HasPrefix(op.Reason, "held by a hook: a backup runs; ") || !strings.HasSuffix(op.Reason, want) {
			t.Errorf("%s: %q, want %q", c.kind, op.Reason, want)
		}
	}
}

// TestR82_AnUnwantedStepIsCalledOffAlthoughItsBootIsGone: no Boot is left to answer, and the step would otherwise go on.
func TestR82_AnUnwantedStepIsCalledOffAlthoughItsBootIsGone(t *testing.T) {
	for unwanted, want := range map[string]Phase{"": Drained, "the spec moved on": Aborted} {
		op, now := to(t, Update, Draining)
		f := quiet(now)
		f.Gone, f.Unwanted = true, unwanted
		op, _ = step(t, op, f, now, want)
		if want == Aborted && (op.Failure.Cause != CauseUnwanted || op.Reason != unwanted) {
			t.Errorf("called off by %s: %q", op.Failure.Cause, op.Reason)
		}
	}
}
