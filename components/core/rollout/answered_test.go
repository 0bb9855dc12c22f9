package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestI17_WhichRequestsAreAnswered: a request is answered when its Operation is recorded, or when no step could
// answer it.
func TestI17_WhichRequestsAreAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		r    Request
		edit func(*fixture)
		want bool
	}{
		"a restart that waits":            {Request{Kind: RequestRestart, Slot: "db-2"}, nil, false},
		"a restart that is recorded":      {Request{Kind: RequestRestart, Slot: "db-2"}, func(f *fixture) { f.op(2, operation.Draining, func(op *operation.Operation) { op.Request.ID = "q" }) }, true},
		"a restart of no slot":            {Request{Kind: RequestRestart, Slot: "db-9"}, nil, true},
		"a restart of what never was":     {Request{Kind: RequestRestart, Slot: "db-2"}, func(f *fixture) { f.missing(2) }, true},
		"a restart of what is gone":       {Request{Kind: RequestRestart, Slot: "db-2"}, func(f *fixture) { f.gone(2, goneFor) }, true},
		"an update of what is there":      {Request{Kind: RequestUpdate, Slot: "db-2"}, nil, true},
		"an update of what is outdated":   {Request{Kind: RequestUpdate, Slot: "db-2"}, func(f *fixture) { f.want("B") }, false},
		"an update in a step":             {Request{Kind: RequestUpdate, Slot: "db-2"}, func(f *fixture) { f.op(2, operation.Booting, nil) }, false},
		"an update that nobody can judge": {Request{Kind: RequestUpdate, Slot: "db-2"}, func(f *fixture) { f.blind("the platform") }, false},
		"of what is not listed now":       {Request{Kind: RequestRestart, Slot: "db-2"}, func(f *fixture) { f.gone(2, goneFor-1) }, false},
		"of what speaks, unlisted": {Request{Kind: RequestRestart, Slot: "db-2"}, func(f *fixture) {
			f.gone(2, goneFor)
			f.obs.Slots[2].Report = healthyReport("db-2", f.now, "none", nil)
		}, false},
		"one that may be gone":           {Request{Kind: RequestRestart, Slot: "db-2"}, func(f *fixture) { f.obs.Slots[2].Instance = nil; f.blind("the platform") }, false},
		"a replacement of what is gone":  {Request{Kind: RequestReplace, Slot: "db-2"}, func(f *fixture) { f.obs.Slots[2].Instance = nil }, false},
		"a replacement of what is to go": {Request{Kind: RequestReplace, Slot: "db-2"}, func(f *fixture) { f.spec.Replicas = 2 }, true},
		"a restart of what is to go":     {Request{Kind: RequestRestart, Slot: "db-2"}, func(f *fixture) { f.spec.Replicas = 2 }, true},
		"of another CVM":                 {Request{Kind: RequestReplace, Slot: "db-2", VMUUID: "vm-of-before"}, nil, true},
		"of what was gone and is back":   {Request{Kind: RequestReplace, Slot: "db-2", Gone: true}, func(f *fixture) { f.obs.Requests[0].VMUUID = f.rec.Slots[2].VMUUID }, true},
		"of what is gone, by a list that may be of before": {Request{Kind: RequestReplace, Slot: "db-2", Gone: true}, func(f *fixture) {
			f.obs.Requests[0].VMUUID, f.obs.Requests[0].At = f.rec.Slots[2].VMUUID, f.now.Add(-3*time.Second)
		}, false},
		"of what is gone, beside a stray one of its name": {Request{Kind: RequestReplace, Slot: "db-2", Gone: true}, func(f *fixture) {
			f.obs.Requests[0].VMUUID = f.rec.Slots[2].VMUUID
			f.obs.Slots[2].Instance.VMUUID, f.obs.Slots[2].Instance.InstanceID = "vm-stray", "another"
		}, false},
		"one that is spent":         {Request{Kind: RequestRestart, Slot: "db-2", Spent: true}, nil, true},
		"a word about what is open": {Request{Kind: RequestResolve, Operation: "op"}, func(f *fixture) { f.op(2, operation.Acting, func(op *operation.Operation) { op.ID = "op" }) }, false},
		"a word about what is over": {Request{Kind: RequestResolve, Operation: "op"}, func(f *fixture) { f.op(2, operation.Done, func(op *operation.Operation) { op.ID = "op" }) }, true},
		"a word about nothing":      {Request{Kind: RequestResolve, Operation: "op"}, nil, true},
		"to go on":                  {Request{Kind: RequestRetry}, nil, true},
	} {
		f := newFixture(3, "none")
		c.r.ID = "q"
		f.obs.Requests = []Request{c.r}
		if c.edit != nil {
			c.edit(f)
		}
		if got := f.plan().Answered; slices.Contains(got, "q") != c.want {
			t.Errorf("%s: answered %v", name, got)
		}
	}
}

// TestR103_ToGoOnIsAboutAFailedRollout: a retry leaves the state of any other rollout unchanged.
func TestR103_ToGoOnIsAboutAFailedRollout(t *testing.T) {
	for state, want := range map[operation.RolloutState]operation.RolloutState{operation.FailedState: operation.Running, operation.Running: operation.Running} {
		f := newFixture(3, "none").want("B").rolling()
		f.rec.Rollout.State, f.rec.Rollout.Reason = state, "before"
		f.blind("the platform") // so that no other input changes the rollout
		f.obs.Requests = []Request{{ID: "q", Kind: RequestRetry, Reason: "mended"}}
		r := f.plan().Rollout
		if said := strings.Contains(r.Reason, "mended"); r.State != want || said != (state == operation.FailedState) {
			t.Errorf("%s: %s, %q", state, r.State, r.Reason)
		}
	}
}

// TestR139_TheStatusNamesTheSlotsThatAreKeptBack: the text names the Slots that are kept back, and the fields that keep
// them back.
func TestR139_TheStatusNamesTheSlotsThatAreKeptBack(t *testing.T) {
	f := newFixture(4, "none").want("B")
	for i := range 4 {
		f.at(i, "B")
	}
	f.at(0, "A").at(1, "A").at(2, "A")
	f.spec.Instances = []group.InstanceSettings{{Ordinal: 1, PinnedRevision: revisionOf(f.spec, "A")}, {Ordinal: 2, ExcludeFromRollout: true}, {Ordinal: 3, ExcludeFromRollout: true}}
	f.spec.UpdatePolicy.Partition = 1
	if slots, by := seenBy(f).leftBehind(); slots != "db-1, db-2" || by != "pinned_revision and exclude_from_rollout keep them back" {
		t.Errorf("%q by %q", slots, by)
	}
	f.spec.Instances, f.spec.UpdatePolicy.Partition = nil, 0
	if slots, by := seenBy(f).leftBehind(); slots != "" || by != "" {
		t.Errorf("%q by %q", slots, by)
	}
}

// TestTimingHasDefaults: OrDefault fills the missing fields and keeps the others.
func TestTimingHasDefaults(t *testing.T) {
	d := DefaultTiming()
	d.Settle = d.MaxCallTimeout
	if got := (Timing{}).OrDefault(); got != d {
		t.Errorf("%+v", got)
	}
	said := Timing{StaleAfter: 1, MaxCallTimeout: 2, Settle: 3, UnknownDeadline: 4, LostAfter: 5}
	if got := said.OrDefault(); got != said {
		t.Errorf("%+v", got)
	}
	if got := (Timing{MaxCallTimeout: time.Hour}).OrDefault(); got.Settle != time.Hour {
		t.Errorf("settles in %s", got.Settle)
	}
}

// TestR65_AnOftenRefusedStepIsLeftToAnOperator: the planner retries until maxRefusals, and then waits for an operator.
func TestR65_AnOftenRefusedStepIsLeftToAnOperator(t *testing.T) {
	for n, want := range map[int]string{maxRefusals - 1: HoldBackoff, maxRefusals: HoldRefused} {
		op := operation.Operation{Kind: operation.Update, To: "B", Phase: operation.Failed, Failure: operation.Failure{Cause: operation.CauseRefused}, Times: operation.Times{Ended: epoch}}
		w := &world{now: epoch}
		h := w.holdsOfTries(candidate{m: &member{history: history{past: slices.Repeat([]operation.Operation{op}, n)}}, kind: operation.Update, to: "B"}, evaluation{})
		if len(h) != 1 || h[0].Predicate != want {
			t.Errorf("after %d: %+v, want %s", n, h, want)
		}
	}
}

// TestR39_ARequestedStepIsAStepLikeOthers: a requested step has another id format than the rollout's steps. The
// requested step still follows the steps that were recorded before it.
func TestR39_ARequestedStepIsAStepLikeOthers(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	f.op(1, operation.Failed, nil)
	f.op(1, operation.Done, func(op *operation.Operation) { op.ID = "db-1.q1" })
	w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
	if last := w.find("db-1").last(); last == nil || last.ID != "db-1.q1" {
		t.Errorf("the last step is %+v", last)
	}
}
