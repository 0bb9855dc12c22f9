package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

func TestR88_TheProgressDeadlineFailsTheRollout(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().at(2, "B").sick(2) // lost after its arrival
	f.rec.Rollout.ProgressAt = f.now.Add(-30 * time.Minute)
	p := f.plan()
	if p.Rollout.State != operation.FailedState || !strings.Contains(p.Rollout.Reason, "progress_deadline") || p.Rollout.EndedAt.IsZero() {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
	f.rec.Rollout.ProgressAt = f.now.Add(-30*time.Minute + time.Second)
	p = f.plan()
	if p.Rollout.State != operation.Running || !p.Wake.Equal(f.now.Add(time.Second)) {
		t.Errorf("state %s, wakes at %s", p.Rollout.State, p.Wake)
	}
}

func TestR88_AnArrivalRestartsIt(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().at(2, "B")
	f.rec.Rollout.ProgressAt = f.now.Add(-time.Hour)
	f.rec.Slots[2].WasAvailableAt = revisionOf(f.spec, "A") // the arrival is not recorded yet
	p := f.plan()
	if !p.Rollout.ProgressAt.Equal(f.now) || p.Rollout.State != operation.Running {
		t.Errorf("progress at %s, state %s", p.Rollout.ProgressAt, p.Rollout.State)
	}
	if p.Slots[2].WasAvailableAt != p.Target {
		t.Error("the arrival is not noted")
	}
}

func TestR88_APauseStopsIt(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	f.rec.Rollout.ProgressAt = f.now.Add(-29 * time.Minute)
	f.obs.Pause = &Override{}
	for range 3 {
		p := f.plan()
		if p.Rollout.State != operation.PausedState || p.Rollout.Verdict != nil {
			t.Fatalf("state %s, verdict %+v", p.Rollout.State, p.Rollout.Verdict)
		}
		f.rec.Rollout = p.Rollout
		f.rec.Rollout.ProgressAt = f.rec.Rollout.ProgressAt.Add(-24 * time.Hour) // a day passes
	}
	f.obs.Pause = &Override{By: "ann", Reason: "maintenance"}
	if p := f.plan(); p.Rollout.Reason != "paused by an operator (ann): maintenance" {
		t.Errorf("reason %q does not name the operator", p.Rollout.Reason)
	}
	f.obs.Pause = nil
	if p := f.plan(); p.Rollout.State != operation.Running {
		t.Errorf("state %s: the pause counts", p.Rollout.State)
	}
}

func TestR88_AResumeRestartsIt(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	f.rec.Rollout.ProgressAt = f.now.Add(-2 * time.Hour)
	f.obs.Pause = &Override{}
	p := f.plan()
	if p.Rollout.State != operation.PausedState || !p.Rollout.PausedAt.Equal(f.now) {
		t.Fatalf("state %s", p.Rollout.State)
	}
	f.rec.Rollout, f.obs.Pause = p.Rollout, nil
	p = f.plan()
	if p.Rollout.State != operation.Running || !p.Rollout.ProgressAt.Equal(f.now) || !p.Rollout.PausedAt.IsZero() {
		t.Errorf("state %s, progress at %s", p.Rollout.State, p.Rollout.ProgressAt)
	}
}

func TestR88_AHookThatHeartbeatsDoesNotConsumeIt(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().op(2, operation.Draining, nil)
	f.rec.Rollout.ProgressAt = f.now.Add(-2 * time.Hour)
	f.obs.Slots[2].Report.Steps = []StepReport{{Operation: f.rec.Operations[0].ID, Verb: VerbDrain, Attempt: 1, State: StepRunning}}
	if p := f.plan(); p.Rollout.State != operation.Running {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
	f.obs.Slots[2].Report.Steps = nil
	if p := f.plan(); p.Rollout.State != operation.FailedState {
		t.Errorf("state %s with a silent hook", p.Rollout.State)
	}
	f.rec.Operations[0].Phase = operation.Booting
	f.rec.Operations[0].Entered[operation.Drained] = f.now.Add(-time.Minute)
	if p := f.plan(); p.Rollout.State != operation.Running {
		t.Errorf("state %s after the hook ended", p.Rollout.State)
	}
}

func TestR88_WaitingForAnOperatorDoesNotConsumeIt(t *testing.T) {
	f := newFixture(3, "none").want("B")
	f.spec.UpdatePolicy.Type = group.Opportunistic
	f.rolling()
	f.rec.Rollout.ProgressAt = epoch
	if p := f.plan(); p.Rollout.State != operation.Running {
		t.Errorf("state %s", p.Rollout.State)
	}
}

// TestR88_TheWorkloadsWordDoesNotConsumeIt where the missing permission alone holds the remaining work, or holds the
// Slot that the rest follows.
func TestR88_TheWorkloadsWordDoesNotConsumeIt(t *testing.T) {
	forbids := func(f *fixture, slots ...int) {
		for _, i := range slots {
			f.obs.Slots[i].Report.MayDisrupt, f.obs.Slots[i].Report.MayDisruptReason = false, "a quota is reached"
		}
	}
	for name, c := range map[string]struct {
		edit func(*fixture)
		want operation.RolloutState
	}{
		"of all members":                {func(f *fixture) { forbids(f, 0, 1, 2) }, operation.Running},
		"of the followers":              {func(f *fixture) { forbids(f, 1, 2) }, operation.Running},
		"of the leader, the last one":   {func(f *fixture) { f.at(1, "B").at(2, "B"); forbids(f, 0) }, operation.Running},
		"a backup":                      {func(f *fixture) { forbids(f, 0, 2); f.obs.Slots[1].Report.Busy = []string{"a backup"} }, operation.Running},
		"of some, and another one ails": {func(f *fixture) { f.at(2, "B").sick(2); forbids(f, 0, 1) }, operation.FailedState},
		"of some, and others are free":  {func(f *fixture) { forbids(f, 1) }, operation.FailedState},
	} {
		f := newFixture(3, "consul").want("B").rolling()
		c.edit(f)
		f.rec.Rollout.ProgressAt = f.now.Add(-time.Hour)
		if got := f.plan().Rollout; got.State != c.want || got.WaitsSince.IsZero() == (c.want == operation.Running) {
			t.Errorf("%s: %s (%s), waits since %s", name, got.State, got.Reason, got.WaitsSince)
		}
	}
}

// TestR88_AnExtraMemberThatWaitsDoesNotConsumeIt: the updates have no room before the extra member exists, and a gate, or
// the gate of the updates themselves, holds its creation.
func TestR88_AnExtraMemberThatWaitsDoesNotConsumeIt(t *testing.T) {
	create := group.Gate{Name: "g", On: []string{group.GateOnCreate}}
	step := group.Gate{Name: "g", On: []string{group.GateOnStep}}
	for name, c := range map[string]struct {
		edit func(*fixture)
		want operation.RolloutState
	}{
		"no gate":                           {func(*fixture) {}, operation.FailedState},
		"a gate on its creation":            {func(f *fixture) { f.gate(create) }, operation.Running},
		"a gate on the updates":             {func(f *fixture) { f.gate(step) }, operation.Running},
		"an open gate":                      {func(f *fixture) { f.gate(create).setting("g", "open", "", 0) }, operation.FailedState},
		"a gate, and another member is ill": {func(f *fixture) { f.gate(create).at(2, "B").sick(2) }, operation.FailedState},
	} {
		for _, kind := range []string{"none", "consul"} {
			f := newFixture(3, kind).want("B").rolling()
			zero, one := 0, 1
			f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.MaxSurgeFixed = &zero, &one
			c.edit(f)
			f.rec.Rollout.ProgressAt = f.now.Add(-time.Hour)
			if got := f.plan().Rollout; got.State != c.want {
				t.Errorf("%s, %s: %s (%s)", name, kind, got.State, got.Reason)
			}
		}
	}
}

// TestR74_R88_ARefusalDoesNotConsumeIt: a retried step has the whole time, from the platform's last refusal on, even
// during its drain.
func TestR74_R88_ARefusalDoesNotConsumeIt(t *testing.T) {
	const minute = time.Minute
	for name, c := range map[string]struct {
		cause operation.Cause
		ago   time.Duration
		again bool
		want  operation.RolloutState
	}{
		"refused a minute ago":   {operation.CauseRefused, minute, false, operation.Running},
		"and tried again":        {operation.CauseRefused, minute, true, operation.Running},
		"refused long ago":       {operation.CauseRefused, 30 * minute, false, operation.FailedState},
		"refused in the future":  {operation.CauseRefused, -minute, false, operation.FailedState},
		"called off by its hook": {operation.CauseHook, minute, false, operation.FailedState},
	} {
		f := newFixture(3, "none").want("B").rolling()
		phase := operation.Failed
		if c.cause == operation.CauseHook {
			phase = operation.Aborted
		}
		f.op(2, phase, func(op *operation.Operation) {
			op.Failure.Cause, op.Reason, op.Times.Ended = c.cause, "no", f.now.Add(-c.ago)
		})
		if c.again {
			f.op(2, operation.Draining, nil)
		}
		f.rec.Rollout.ProgressAt = f.now.Add(-time.Hour)
		if got := f.plan().Rollout; got.State != c.want {
			t.Errorf("%s: %s: %s", name, got.State, got.Reason)
		}
	}
}

// TestR74_R88_AMissingOfferDoesNotConsumeTheProgressDeadline: a resource that the platform no longer offers waits for
// an operator, for any Slot that needs it.
func TestR74_R88_AMissingOfferDoesNotConsumeTheProgressDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		refused string
		want    operation.RolloutState
	}{
		"the target": {"B", operation.Running}, "a pin": {"C", operation.Running}, "what nobody goes to": {"A", operation.FailedState},
	} {
		f := newFixture(3, "none").want("B").rolling().at(0, "B").at(1, "B")
		if c.refused == "C" {
			f.spec.Instances = []group.InstanceSettings{{Ordinal: 2, PinnedRevision: revisionOf(f.spec, "C")}}
		}
		f.rec.Rollout.ProgressAt = f.now.Add(-2 * time.Hour)
		if got := f.plan().Rollout.State; got != operation.FailedState {
			t.Errorf("%s, as long as it is offered: state %s", name, got)
		}
		f.obs.Refused = map[string]string{revisionOf(f.spec, c.refused): "no such image"}
		p := f.plan()
		if p.Rollout.State != c.want {
			t.Errorf("%s: state %s: %s", name, p.Rollout.State, p.Rollout.Reason)
		}
		if c.want == operation.Running {
			wantHeld(t, p, "db-2", HoldPrecondition)
			f.rec.Rollout, f.obs.Refused = p.Rollout, nil
			if r := f.plan().Rollout; r.State != operation.Running || !r.ProgressAt.Equal(f.now) {
				t.Errorf("%s, offered again: state %s, progress at %s", name, r.State, r.ProgressAt)
			}
		}
	}
}

func TestR89_AFailedStepFailsTheRolloutAtOnce(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().sick(2)
	f.op(2, operation.Failed, func(op *operation.Operation) { op.Failure.Cause, op.Reason = operation.CauseBootError, "no such image" })
	p := f.plan()
	if p.Rollout.State != operation.FailedState || !strings.Contains(p.Message, "no such image") || !strings.Contains(p.Message, "db-2") {
		t.Errorf("state %s, message %q", p.Rollout.State, p.Message)
	}
}

func TestR80_ThreeCallOffsFailTheRollout(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	for i := range 3 {
		if p := f.plan(); p.Rollout.State != operation.Running {
			t.Errorf("after %d: state %s", i, p.Rollout.State)
		}
		f.op(2, operation.Aborted, func(op *operation.Operation) { op.Failure.Cause, op.Reason = operation.CauseHook, "not today" })
	}
	if p := f.plan(); p.Rollout.State != operation.FailedState || !strings.Contains(p.Rollout.Reason, "not today") {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

// TestR74_APreconditionIsNoFailure: a platform refusal says nothing about the member, and the call is retried with
// growing waits.
func TestR74_APreconditionIsNoFailure(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	off := func(cause operation.Cause) {
		f.op(2, operation.Aborted, func(op *operation.Operation) { op.Failure.Cause, op.Times.Ended = cause, f.now })
	}
	off(operation.CauseHook)
	for range maxAborts {
		off(operation.CausePrecondition)
	}
	off(operation.CauseHook)
	p := f.plan()
	if p.Rollout.State != operation.Running {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
	for _, a := range p.Actions {
		if a.Slot == "db-2" && !a.HeldBy(HoldBackoff) {
			t.Errorf("%s is held by %v", a.Slot, holdNames(a))
		}
	}
	off(operation.CauseHook)
	if p := f.plan(); p.Rollout.State != operation.FailedState {
		t.Errorf("after %d by hooks: %s", maxAborts, p.Rollout.State)
	}
}

// TestR5_ACompleteRolloutIsStableUnderAnyStatus: the rollout's leader died before it wrote the status, and a member was
// lost meanwhile.
func TestR5_ACompleteRolloutIsStableUnderAnyStatus(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().at(0, "B").at(1, "B").at(2, "B")
	f.rec.Rollout.State = operation.Complete
	f.stopped(1)
	b := f.spec.Revision()
	if p := f.plan(); p.Stable != b || p.Status.Stable != b {
		t.Errorf("stable %.8s, status %.8s, want %.8s", p.Stable, p.Status.Stable, b)
	}
	if p := f.want("C").plan(); p.Rollout.From != b || p.Stable != b {
		t.Errorf("the next one goes from %.8s, stable %.8s, want %.8s", p.Rollout.From, p.Stable, b)
	}
}

func TestR82_BeingCalledOffByAPauseOrANewSpecIsNoRefusal(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	for _, cause := range []operation.Cause{operation.CausePaused, operation.CauseUnwanted, operation.CausePaused, operation.CauseUnwanted} {
		f.op(2, operation.Aborted, func(op *operation.Operation) { op.Failure.Cause = cause })
	}
	wantExecutes(t, f.plan(), "UPDATE db-2")
}

func TestR90_FailedRevisionsAreKept(t *testing.T) {
	failed := func(cause operation.Cause) Plan {
		f := newFixture(3, "none").want("B").rolling().sick(2)
		f.op(2, operation.Failed, func(op *operation.Operation) { op.Failure.Cause = cause })
		return f.plan()
	}
	for cause, want := range map[operation.Cause]bool{
		operation.CauseBootError: true, operation.CauseDeadline: true, operation.CausePostLaunch: true,
		operation.CauseRefused: false, operation.CauseReplaced: false,
	} {
		p := failed(cause)
		if got := slices.Contains(p.Status.FailedRevisions, p.Target); got != want {
			t.Errorf("%s: failed revisions %v, want the target in it: %t", cause, p.Status.FailedRevisions, want)
		}
	}
	f := newFixture(3, "none").want("B").rolling().at(2, "B").sick(2) // the Slot was available there once
	f.op(2, operation.Failed, func(op *operation.Operation) { op.Failure.Cause = operation.CauseDeadline })
	if p := f.plan(); len(p.Status.FailedRevisions) != 0 {
		t.Errorf("failed revisions %v", p.Status.FailedRevisions)
	}
}

func TestR99_NoSecondHealthySlotIsSpent(t *testing.T) {
	f := newFixture(5, "none").want("B").rolling().sick(4)
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(3)
	f.op(4, operation.Failed, nil)
	p := f.plan()
	wantExecutes(t, p)
	for _, a := range p.Actions {
		if !a.HeldBy(HoldRolloutFailed) {
			t.Errorf("%s is held by %v", a.Slot, holdNames(a))
		}
	}
	p = f.sick(3).plan() // not even a Slot with another fault
	wantExecutes(t, p)
}

func TestR99_TheMixedStateIsKept(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().at(2, "B").sick(1)
	f.op(1, operation.Failed, nil)
	p := f.plan()
	if p.Status.Updated != 1 || p.Stable != revisionOf(f.spec, "A") || p.Rollout.To != p.Target {
		t.Errorf("updated %d, stable %s", p.Status.Updated, p.Stable)
	}
}

// TestI6_AFailedRolloutWaitsForADecision: a verdict stands until an operator decides. A late Slot or a creation does
// not remove it.
func TestI6_AFailedRolloutWaitsForADecision(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().at(2, "B")
	f.op(2, operation.Failed, nil)
	f.rec.Rollout.State, f.rec.Rollout.Reason, f.rec.Rollout.EndedAt = operation.FailedState, "db-2: too late", f.now
	f.rec.Rollout.Verdict = &operation.Verdict{Cause: operation.CauseDeadline, Slot: "db-2", Reason: "too late", At: f.now}
	p := f.plan()
	wantExecutes(t, p)
	if p.Rollout.State != operation.FailedState || p.Rollout.Verdict == nil || p.Rollout.Reason != "db-2: too late" {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
	f.spec.Replicas = 4
	p = f.plan()
	wantExecutes(t, p, "CREATE db-3")
	if p.Rollout.State != operation.FailedState {
		t.Errorf("a creation makes it %s", p.Rollout.State)
	}
	f.spec.Replicas = 3
	f.obs.Requests = []Request{{ID: "r", Kind: RequestRetry, Reason: "the host is fixed", By: "ann"}}
	p = f.plan()
	if p.Rollout.RetriedBy != "ann" || p.Rollout.RetryRequest != "r" {
		t.Errorf("retried by %q, request %q; want ann, r", p.Rollout.RetriedBy, p.Rollout.RetryRequest)
	}
	wantExecutes(t, p, "UPDATE db-1")
	if p.Rollout.State != operation.Running || !p.Rollout.EndedAt.IsZero() || p.Rollout.Verdict != nil || !p.Rollout.ProgressAt.Equal(f.now) {
		t.Errorf("state %s, ended %s, clock from %s", p.Rollout.State, p.Rollout.EndedAt, p.Rollout.ProgressAt)
	}
	if len(p.Answered) != 1 || p.Answered[0] != "r" {
		t.Errorf("answered %v", p.Answered)
	}
}

// TestR88_AReopenedRolloutHasItsWholeTime: a completed rollout that is opened again has its whole time, even if it was
// complete for longer.
func TestR88_AReopenedRolloutHasItsWholeTime(t *testing.T) {
	f := newFixture(3, "none")
	f.rec.Rollout.ProgressAt = f.now.Add(-24 * time.Hour)
	f.obs.Slots[1].Admission.Revision = revisionOf(f.spec, "B") // an operator moved it by hand
	p := f.plan()
	if p.Rollout.State != operation.Running || !p.Rollout.ProgressAt.Equal(f.now) {
		t.Errorf("state %s (%s), clock from %s", p.Rollout.State, p.Rollout.Reason, p.Rollout.ProgressAt)
	}
}

func TestR103_UpdatingTheFailedSlotByNameIsANewAttempt(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().sick(2)
	f.op(2, operation.Failed, nil)
	wantExecutes(t, f.plan())
	f.asksFor(RequestUpdate, "db-2", "q")
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-2")
	if a := actionOf(t, p, "db-2"); a.Attempt != 2 || a.Class != ClassMarked {
		t.Errorf("action %+v", a)
	}
	f.op(2, operation.Booting, func(op *operation.Operation) { op.Attempt = 2 })
	p = f.plan() // two requests: one restart
	wantExecutes(t, p)
	if p.Rollout.State != operation.Running {
		t.Errorf("state %s while the attempt is on", p.Rollout.State)
	}
}

func TestR103_RollingBackIsTheEarlierTemplateAgain(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().at(2, "B").sick(2)
	f.op(2, operation.Failed, func(op *operation.Operation) { op.Failure.Cause = operation.CauseDeadline })
	f.rec.Slots[2].WasAvailableAt = revisionOf(f.spec, "A")
	f.want("A")
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-2")
	if p.Target != p.Stable || len(p.Actions) != 1 {
		t.Errorf("target %s, stable %s\n%s", p.Target, p.Stable, describe(p))
	}
	if !slices.Contains(p.Status.FailedRevisions, revisionOf(f.spec, "B")) {
		t.Errorf("failed revisions %v", p.Status.FailedRevisions)
	}
}

func TestR103_PauseAndResumeAreIdempotent(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	f.obs.Pause = &Override{}
	first := f.plan()
	f.rec.Rollout = first.Rollout
	f.now, f.obs.At = f.now.Add(time.Second), f.now.Add(time.Second)
	second := f.plan()
	if !second.Rollout.PausedAt.Equal(first.Rollout.PausedAt) || second.Rollout.State != operation.PausedState {
		t.Errorf("paused at %s, then %s", first.Rollout.PausedAt, second.Rollout.PausedAt)
	}
	wantExecutes(t, second)
	wantHeld(t, second, "db-2", HoldPaused)
}

func TestR105_OPS04_ANewSpecSupersedes(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	old := f.rec.Rollout.ID
	p := f.want("C").plan()
	if p.Superseded == nil || p.Superseded.ID != old || p.Superseded.State != operation.SupersededState || p.Superseded.EndedAt.IsZero() {
		t.Fatalf("superseded %+v", p.Superseded)
	}
	if p.Rollout.ID == old || p.Rollout.To != revisionOf(f.spec, "C") || p.Rollout.State != operation.Running || p.Generation != 3 {
		t.Errorf("rollout %+v, generation %d", p.Rollout, p.Generation)
	}
	if f.rec.Rollout.State == operation.SupersededState {
		t.Error("the input was written to")
	}
}

func TestR105_ASlotThatBootsAnIntermediateRevisionGetsTheNewestNext(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().op(2, operation.Booting, nil)
	f.obs.Slots[2].Instance.InProgress = true
	f.obs.Slots[2].Report = nil
	id := f.rec.Operations[0].ID
	p := f.want("C").plan()
	wantExecutes(t, p, "UPDATE db-2")
	a := actionOf(t, p, "db-2")
	if a.Retarget == nil || a.Retarget.ID != id || a.To != revisionOf(f.spec, "C") || !a.Way.SkipDrain {
		t.Errorf("action %+v", a)
	}
	wantHeld(t, p, "db-1", HoldMaxUnavailable)
}

func TestR105_AnUndecidedCallIsDecidedFirst(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().op(2, operation.Acting, nil)
	p := f.want("C").plan()
	wantExecutes(t, p)
	if a := actionOf(t, p, "db-2"); a.Operation == "" || a.Retarget != nil {
		t.Errorf("action %+v", a)
	}
}

func TestR105_GoingBackWhileTheSlotBootsIsARetargetToo(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().op(2, operation.Booting, nil)
	f.obs.Slots[2].Report = nil // its last admission still proves A
	p := f.want("A").plan()
	wantExecutes(t, p, "UPDATE db-2")
	if a := actionOf(t, p, "db-2"); a.Retarget == nil {
		t.Errorf("action %+v", a)
	}
}

func TestR105_StepsOfTheOldRolloutAreNoEvidenceAboutTheNew(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().at(2, "B").sick(2)
	f.op(2, operation.Failed, func(op *operation.Operation) { op.Failure.Cause = operation.CauseDeadline })
	p := f.want("C").plan()
	wantExecutes(t, p, "UPDATE db-2")
	if p.Rollout.State != operation.Running || actionOf(t, p, "db-2").Attempt != 1 {
		t.Errorf("state %s\n%s", p.Rollout.State, describe(p))
	}
}

func TestR138_TheMessageNamesTheReasonOfAWait(t *testing.T) {
	for want, f := range map[string]*fixture{
		"3 of 3 slots available at": newFixture(3, "none"),
		"begins UPDATE of db-2":     newFixture(3, "none").want("B"),
		"waits for db-2: min_ready, 12s left": newFixture(3, "none").want("B").rolling().op(2, operation.Settling, func(op *operation.Operation) {
			op.Seen.AvailableSince = epoch.Add(24*time.Hour - 18*time.Second)
		}),
		"waits for db-1: health unhealthy: does not answer": newFixture(3, "none").sick(1),
		"max_unavailable is 1 and db-2 is not available":    newFixture(3, "none").want("B").rolling().at(2, "B").sick(2),
		"waits for db-2: Draining: hook runs": newFixture(3, "none").want("B").rolling().op(2, operation.Draining, func(op *operation.Operation) {
			op.Reason = "hook runs"
		}),
		"waits for db-2: no fresh report": newFixture(3, "none").want("B").rolling().op(2, operation.Joining, nil).silent(2, epoch),
	} {
		if got := f.plan().Message; !strings.Contains(got, want) {
			t.Errorf("message %q, want %q in it", got, want)
		}
	}
}

func TestR138_APausedPassExplainsItself(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	f.obs.Freeze = &Override{}
	p := f.plan()
	if !strings.Contains(p.Message, HoldFrozen) || !p.Status.Paused {
		t.Errorf("message %q", p.Message)
	}
}

func TestConditionsKeepTheirSince(t *testing.T) {
	f := newFixture(3, "none")
	first := f.plan()
	f.rec.Status.Conditions = first.Status.Conditions
	f.now = f.now.Add(5 * time.Second)
	f.obs.At = f.now
	for _, c := range f.plan().Status.Conditions {
		if !c.Since.Equal(first.Status.At) {
			t.Errorf("%s since %s", c.Type, c.Since)
		}
	}
	f.sick(0)
	for _, c := range f.plan().Status.Conditions {
		if c.Type == ConditionAvailable && (c.Status || !c.Since.Equal(f.now)) {
			t.Errorf("%+v", c)
		}
	}
}

func TestStatusCountsAndGeneration(t *testing.T) {
	f := newFixture(4, "patroni").want("B").rolling().at(3, "B").sick(1)
	s := f.plan().Status
	if s.Replicas != 4 || s.Available != 3 || s.Unavailable != 1 || s.Updated != 1 || s.Generation != 2 || s.ObservedIndex != 7 || s.RolloutState != "RUNNING" {
		t.Errorf("status %+v", s)
	}
	if len(s.Instances) != 4 || s.Instances[0].Role != "leader" || s.Instances[1].State != "Unavailable" || s.Instances[3].Observed != s.Target {
		t.Errorf("instances %+v", s.Instances)
	}
	f.rec.Status.Replicas = 3
	if g := f.plan().Generation; g != 3 {
		t.Errorf("generation %d after a change of size", g)
	}
}

func TestR66_AnUndecidedCallFailsTheRolloutVisibly(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().op(2, operation.Acting, func(op *operation.Operation) {
		op.Call.Outcome, op.Call.IssuedAt, op.Call.Number = operation.OutcomeUnknown, epoch, 1
	})
	p := f.plan()
	if p.Rollout.State != operation.FailedState || !strings.Contains(p.Rollout.Reason, "platform_result_unknown") {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

func TestR87_AWholeRolloutWaitsForTheDeadlineOfItsStep(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().op(2, operation.Booting, nil)
	f.obs.Slots[2].Report = nil
	p := f.plan()
	if p.Wake.After(f.rec.Operations[0].Times.HealthyBy) || p.Wake.IsZero() {
		t.Errorf("wakes at %s, the deadline is %s", p.Wake, f.rec.Operations[0].Times.HealthyBy)
	}
}

func TestAnAgentsFaultIsInTheReasonOfItsSlot(t *testing.T) {
	f := newFixture(2, "none")
	f.obs.Slots[0].Report.Faults = []string{"the disk takes no writes", "another"}
	f.sick(1)
	f.obs.Slots[1].Report.Faults = []string{"the disk takes no writes"}
	s := f.plan().Status
	if got := s.Instances[0]; got.Reason != "agent: the disk takes no writes; another" || got.State != "Available" {
		t.Errorf("%s: %s", got.State, got.Reason)
	}
	if got := s.Instances[1].Reason; !strings.HasSuffix(got, "; agent: the disk takes no writes") || strings.HasPrefix(got, ";") {
		t.Errorf("reason %q", got)
	}
}

// TestARolloutNamesTheCallerOfTheSpecThatBeganIt: the rollout names the caller and the request of its first spec. It
// keeps them when a later spec with the same target is applied.
func TestARolloutNamesTheCallerOfTheSpecThatBeganIt(t *testing.T) {
	f := newFixture(3, "none").want("B")
	f.rec.AppliedBy, f.rec.AppliedRequest = "ann", "apply-1"
	p := f.plan()
	if r := p.Rollout; r.By != "ann" || r.Request != "apply-1" || r.To != revisionOf(f.spec, "B") {
		t.Errorf("rollout to %s by %q, request %q; want ann, apply-1", r.To, r.By, r.Request)
	}
	f.rec.Rollout = p.Rollout
	f.rec.AppliedBy, f.rec.AppliedRequest = "bob", "apply-2"
	f.spec.Replicas = 4
	if r := f.plan().Rollout; r.By != "ann" || r.Request != "apply-1" {
		t.Errorf("after another spec with its target: by %q, request %q; want ann, apply-1", r.By, r.Request)
	}
	f.want("C")
	p = f.plan()
	if r, old := p.Rollout, p.Superseded; r.By != "bob" || r.Request != "apply-2" || old == nil || old.By != "ann" {
		t.Errorf("the next one by %q, request %q, before %+v; want bob, apply-2, before ann", r.By, r.Request, old)
	}
}

// TestR90_TheNewestFailedRevisionsAreKept: the list is bounded, and the oldest one is forgotten.
func TestR90_TheNewestFailedRevisionsAreKept(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().sick(2)
	f.op(2, operation.Failed, func(op *operation.Operation) { op.Failure.Cause = operation.CauseBootError })
	for i := range keptFailures {
		f.rec.Status.FailedRevisions = append(f.rec.Status.FailedRevisions, fmt.Sprint("earlier-", i))
	}
	p := f.plan()
	if got := p.Status.FailedRevisions; len(got) != keptFailures || got[0] != "earlier-1" || got[keptFailures-1] != p.Target {
		t.Errorf("failed revisions %v", got)
	}
}

// TestR89_ACVMThatDoesNotBootAtTheTargetFailsTheRollout, also where no step of the rollout moved it there.
func TestR89_ACVMThatDoesNotBootAtTheTargetFailsTheRollout(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(f *fixture)
		fails bool
	}{
		"never available at the target": {func(*fixture) {}, true},
		"available there before":        {func(f *fixture) { f.rec.Slots[1].WasAvailableAt = f.spec.Revision() }, false},
		"still at work":                 {func(f *fixture) { f.obs.Slots[1].Instance.InProgress = true }, false},
		"at another revision":           {func(f *fixture) { f.at(1, "A") }, false},
	} {
		f := newFixture(3, "none").want("B").rolling().at(1, "B").stopped(1)
		f.rec.Slots[1].WasAvailableAt, f.obs.Slots[1].Instance.BootError = revisionOf(f.spec, "A"), "no such image"
		c.edit(f)
		p := f.plan()
		if (p.Rollout.State == operation.FailedState) != c.fails || c.fails && !strings.Contains(p.Rollout.Reason, "never available at the target: no such image") {
			t.Errorf("%s: %s, %s", name, p.Rollout.State, p.Rollout.Reason)
		}
	}
}

// TestR96_OnlyAFinishedUpdateOfARolloutDelaysTheNext: an operator's update, a failed update and a restart do not.
func TestR96_OnlyAFinishedUpdateOfARolloutDelaysTheNext(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(op *operation.Operation)
		delays bool
	}{
		"an update":             {func(*operation.Operation) {}, true},
		"an update on request":  {func(op *operation.Operation) { op.Actor = operation.ActorOperator }, false},
		"a cancelled update":    {func(op *operation.Operation) { op.Phase, op.Failure.Cause = operation.Aborted, operation.CausePaused }, false},
		"a restart that heals":  {func(op *operation.Operation) { op.Kind, op.Actor = operation.Restart, operation.ActorHealing }, false},
		"of an earlier version": {func(op *operation.Operation) { op.Actor = "" }, true},
	} {
		f := newFixture(3, "none").want("B")
		f.spec.UpdatePolicy.StepDelay = group.Duration(time.Hour)
		f.rolling().at(2, "B").op(2, operation.Done, func(op *operation.Operation) {
			op.Actor = operation.ActorRollout
			c.edit(op)
		})
		p := f.plan()
		if actionOf(t, p, "db-1").HeldBy(HoldStepDelay) != c.delays {
			t.Errorf("%s: db-1 is held by %v", name, holdNames(actionOf(t, p, "db-1")))
		}
	}
}

// TestR96_ADelayBeginsNowIfTheLastStepEndedInTheFuture: the clock of the leader before was ahead.
func TestR96_ADelayBeginsNowIfTheLastStepEndedInTheFuture(t *testing.T) {
	const delay = 10 * time.Minute
	for ago, want := range map[time.Duration]time.Duration{-time.Hour: delay, 0: delay, 4 * time.Minute: 6 * time.Minute, delay: 0} {
		f := newFixture(3, "none").want("B")
		f.spec.UpdatePolicy.StepDelay = group.Duration(delay)
		f.rolling().at(2, "B").op(2, operation.Done, func(op *operation.Operation) { op.Times.Ended = f.now.Add(-ago) })
		if slot, until := seenBy(f).findDelay(); slot != "db-2" || !until.Equal(f.now.Add(want)) {
			t.Errorf("ended %s ago: waits after %s for %s, want %s", ago, slot, until.Sub(f.now), want)
		}
		if want == 0 {
			wantExecutes(t, f.plan(), "UPDATE db-1")
			continue
		}
		wantHeld(t, f.plan(), "db-1", HoldStepDelay)
	}
}
