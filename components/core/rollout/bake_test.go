package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// staged is a group of three whose first stage is one Slot, which arrived at B twenty minutes ago and bakes for an hour.
func staged(kind string) *fixture {
	f := newFixture(3, kind).want("B")
	f.spec.UpdatePolicy.Stages = []group.Stage{{Slots: 1, Bake: group.Duration(time.Hour)}}
	f.spec.Normalize()
	f.rolling().at(2, "B")
	f.rec.Rollout.BakeSince = f.now.Add(-20 * time.Minute)
	return f
}

// failing2 makes the last Slot unavailable for some time, by the given change.
func (f *fixture) failing2(since time.Duration, change func()) *fixture {
	f.rec.Slots[2].AvailableSince, f.rec.Slots[2].UnavailableSince = time.Time{}, f.now.Add(-since)
	change()
	return f
}

// TestR91_WhatCountsAgainstARevision: a statement about the member itself that lasts; no silence, and no fault that has
// another cause.
func TestR91_WhatCountsAgainstARevision(t *testing.T) {
	sick := func(since time.Duration) *fixture {
		f := staged("none")
		return f.failing2(since, func() { f.sick(2) })
	}
	reported := func(kind string, change func(r *Report)) *fixture {
		f := staged(kind)
		return f.failing2(time.Hour, func() { change(f.obs.Slots[2].Report) })
	}
	bootError := func(text string) *fixture {
		f := staged("none")
		return f.failing2(time.Hour, func() { f.stopped(2); f.obs.Slots[2].Instance.BootError = text })
	}
	changed := func(f *fixture, change func(f *fixture)) *fixture { change(f); return f }
	for name, c := range map[string]struct {
		f    *fixture
		want bool
	}{
		"it is unhealthy for a minute":  {sick(time.Minute), true},
		"it is unhealthy for less":      {sick(time.Minute - time.Second), false},
		"a check fails":                 {reported("none", func(r *Report) { r.Health = Unhealthy }), true},
		"its health is unknown":         {reported("none", func(r *Report) { r.Health = Unknown }), false},
		"its workload is not ready":     {reported("patroni", func(r *Report) { r.MemberReady = false }), true},
		"its workload only lags behind": {reported("patroni", func(r *Report) { no := false; r.CaughtUp = &no }), false},
		"its CVM does not boot":         {bootError("failed to start containers"), true},
		"the key service gives no keys": {bootError("Failed to get app key: timeout"), false},
		"it is silent":                  {staged("none").silent(2, epoch), false},
		"its CVM is stopped":            {staged("none").stopped(2), false},
		"it is drained":                 {sick(time.Hour).drains(2), false},
		"a slot of the old revision fails as well": {changed(sick(time.Hour), func(f *fixture) {
			f.sick(0)
			f.rec.Slots[0].AvailableSince, f.rec.Slots[0].UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
		}), false},
		"a slot of the old revision failed at another time": {changed(sick(time.Hour), func(f *fixture) {
			f.sick(0)
			f.rec.Slots[0].AvailableSince, f.rec.Slots[0].UnavailableSince = time.Time{}, f.now.Add(-3*time.Hour)
		}), true},
		"a member of another group fails as well": {changed(sick(time.Hour), func(f *fixture) {
			f.obs.Fleet.Unhealthy = []UnhealthyMember{{Slot: "web-0", Since: f.now.Add(-time.Hour)}}
		}), false},
		"an operator restarted it": {changed(sick(time.Hour), func(f *fixture) {
			f.op(2, operation.Failed, func(op *operation.Operation) {
				op.Kind, op.Actor, op.From = operation.Restart, operation.ActorOperator, op.To
				op.Times.Created, op.Times.Ended = f.now.Add(-61*time.Minute), f.now.Add(-50*time.Minute)
				op.To = "another" // its failure is no evidence of a step
			})
		}), false},
		"its host restarted it a moment ago": {changed(sick(2*time.Minute), func(f *fixture) {
			f.obs.Slots[2].Admission.AdmittedAt, f.rec.Slots[2].AvailableBoot = f.now.Add(-2*time.Minute), "the boot before"
		}), false},
		"it does not come up in the time of a boot": {changed(sick(time.Hour), func(f *fixture) {
			f.obs.Slots[2].Admission.AdmittedAt, f.rec.Slots[2].AvailableBoot = f.now.Add(-time.Hour), "the boot before"
		}), true},
		"it fails again and again": {changed(sick(2*time.Second), func(f *fixture) {
			f.flapped(2, 9*time.Minute, 6*time.Minute, 3*time.Minute, 2*time.Second)
		}), true},
		"no bake runs": {changed(sick(time.Hour), func(f *fixture) { f.rec.Rollout.BakeSince = time.Time{} }), false},
		"another slot": {changed(staged("none"), func(f *fixture) {
			f.sick(0)
			f.rec.Slots[0].AvailableSince, f.rec.Slots[0].UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
		}), false},
	} {
		v := c.f.plan().Rollout.Verdict
		if got := v != nil && v.Cause == operation.CauseBake && v.Slot == "db-2"; got != c.want {
			t.Errorf("%s: verdict %+v, want one: %t", name, v, c.want)
		}
	}
}

// TestR91_AFailedBakeIsKept: the revision is a failed one, and the bake of a retry begins again.
func TestR91_AFailedBakeIsKept(t *testing.T) {
	f := staged("none")
	f.failing2(time.Hour, func() { f.sick(2) })
	p := f.plan()
	if p.Rollout.State != operation.FailedState || !slices.Contains(p.Status.FailedRevisions, p.Target) || !p.Rollout.BakeSince.IsZero() {
		t.Errorf("%+v, failed revisions %v", p.Rollout, p.Status.FailedRevisions)
	}
	for _, part := range []string{"db-2", "stage 1 of 1", f.rec.Slots[2].UnavailableSince.Format(time.TimeOnly)} {
		if !strings.Contains(p.Rollout.Reason, part) {
			t.Errorf("%q is not in %q", part, p.Rollout.Reason)
		}
	}
}

// TestR91_TheEvidenceComesBeforeItsRepair: a restart within the minute would hide a fault that comes again.
func TestR91_TheEvidenceComesBeforeItsRepair(t *testing.T) {
	heals := func(since time.Duration) bool {
		f := staged("none")
		f.spec.AutoHealing = &group.AutoHealing{HealthCheck: "http"}
		f.spec.Normalize()
		f.failing2(since, func() { f.sick(2); f.obs.Slots[2].Report.Failing = []string{"http"} })
		return slices.ContainsFunc(f.plan().Actions, func(a Action) bool {
			return a.Slot == "db-2" && a.Actor == operation.ActorHealing && a.Execute
		})
	}
	if heals(30*time.Second) || !heals(2*time.Minute) {
		t.Error("the repair does not wait for the verdict, or does not come after it")
	}
}

// TestR91_TheBakeClockIsTheRecords: a new leader goes on with it, and a time in the future counts as now.
func TestR91_TheBakeClockIsTheRecords(t *testing.T) {
	for name, c := range map[string]struct {
		since, want time.Duration
		opens       bool
	}{
		"it goes on":             {20 * time.Minute, 20 * time.Minute, false},
		"it is over":             {time.Hour, 0, true},
		"the clock was ahead":    {-5 * time.Minute, 0, false},
		"it begins at the first": {0, 0, false},
	} {
		f := staged("none")
		f.rec.Rollout.BakeSince = f.now.Add(-c.since)
		p := f.plan()
		if opens := p.Rollout.StagesPassed == 1; opens != c.opens || !opens && !p.Rollout.BakeSince.Equal(f.now.Add(-c.want)) {
			t.Errorf("%s: passed %d, since %s", name, p.Rollout.StagesPassed, p.Rollout.BakeSince)
		}
	}
}

// TestR95_WhatHoldsAPromotion: an operator's word, a gate, and a Slot that is away.
func TestR95_WhatHoldsAPromotion(t *testing.T) {
	baked := func(change func(f *fixture)) *fixture {
		f := staged("none")
		f.rec.Rollout.BakeSince = f.now.Add(-2 * time.Hour)
		change(f)
		f.spec.Normalize()
		return f
	}
	ask := func(f *fixture) { f.spec.UpdatePolicy.Stages[0].Promote = group.PromoteAsk }
	promotes := func(stage int, rollout string) func(f *fixture) {
		return func(f *fixture) {
			ask(f)
			if rollout == "" {
				rollout = f.rec.Rollout.ID
			}
			f.obs.Requests = append(f.obs.Requests, Request{ID: "p", Kind: RequestPromote, Rollout: rollout, Stage: stage, By: "ann"})
		}
	}
	unbaked := func(then func(f *fixture)) func(f *fixture) {
		return func(f *fixture) {
			f.rec.Rollout.BakeSince = f.now
			f.obs.HoldOverrides = map[string]*Override{HoldStageBaking: {By: "ann", Reason: "urgent", Until: f.now.Add(time.Hour), Rollout: f.rec.Rollout.ID}}
			then(f)
		}
	}
	gated := func(f *fixture) {
		f.spec.Gates = []group.Gate{{Name: "alarm", On: []string{group.GateOnPromote}}}
	}
	for name, c := range map[string]struct {
		f    *fixture
		hold string
	}{
		"nothing":              {baked(func(*fixture) {}), ""},
		"an operator is asked": {baked(ask), HoldStagePromotion},
		"an operator promotes": {baked(promotes(1, "")), ""},
		"for the next stage":   {baked(promotes(2, "")), HoldStagePromotion},
		"of another rollout":   {baked(promotes(1, "db-0")), HoldStagePromotion},
		"a gate is closed":     {baked(gated), HoldStage},
		"its bake is passed":   {baked(unbaked(ask)), HoldStagePromotion},
		"a slot is away":       {baked(func(f *fixture) { f.silent(2, f.now.Add(-time.Hour)) }), HoldStage},
	} {
		p := c.f.plan()
		held := holdsAt(p, "db-1")
		if c.hold == "" && p.Rollout.StagesPassed != 1 || c.hold != "" && (!slices.Contains(held, c.hold) || p.Rollout.StagesPassed != 0) {
			t.Errorf("%s: passed %d, db-1 is held by %v", name, p.Rollout.StagesPassed, held)
		}
		if _, waits := p.StageToPromote(c.f.spec); waits != (c.hold == HoldStagePromotion) {
			t.Errorf("%s: waits for a promotion: %t", name, waits)
		}
	}
}

// TestR94_AStageHoldsNoRepairThatOnlyTheUpdateIs: a member that never worked at its Revision would keep the budget of
// the stage without end.
func TestR94_AStageHoldsNoRepairThatOnlyTheUpdateIs(t *testing.T) {
	for runs, want := range map[string]bool{"A": true, "C": false} {
		f := staged("none")
		f.at(0, runs).sick(0)
		f.rec.Slots[0].AvailableSince, f.rec.Slots[0].UnavailableSince = time.Time{}, f.now.Add(-3*time.Hour)
		f.rec.Slots[0].WasAvailableAt = revisionOf(f.spec, "A")
		if got := slices.Contains(holdsAt(f.plan(), "db-0"), HoldStageBaking); got != want {
			t.Errorf("it runs %s, and was available at A: held %t", runs, got)
		}
	}
}

// TestR91_ASpecWithoutTheStageEndsItsBake: the progress clock runs again, and a later stage begins its own bake.
func TestR91_ASpecWithoutTheStageEndsItsBake(t *testing.T) {
	f := staged("none")
	stages := f.spec.UpdatePolicy.Stages
	f.spec.UpdatePolicy.Stages = nil
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-1")
	if r := p.Rollout; !r.BakeSince.IsZero() || !r.WaitsSince.IsZero() {
		t.Errorf("bakes since %s, waits since %s", r.BakeSince, r.WaitsSince)
	}
	f.rec.Rollout, f.spec.UpdatePolicy.Stages = p.Rollout, stages
	if p := f.plan(); !p.Rollout.BakeSince.Equal(f.now) {
		t.Errorf("the stage is back: bakes since %s", p.Rollout.BakeSince)
	}
}

// TestR94_ABrokenSlotIsTheFirstOfAStage: outside of the stage it would keep the budget of the stage, and wait for it.
func TestR94_ABrokenSlotIsTheFirstOfAStage(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	f.spec.UpdatePolicy.Stages = []group.Stage{{Slots: 1, Bake: group.Duration(time.Hour)}}
	f.rec.Slots[0].AvailableSince, f.rec.Slots[0].UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
	f.sick(0)
	wantExecutes(t, f.plan(), "UPDATE db-0")
	wantHeld(t, f.plan(), "db-2", HoldStage)
	if f.drains(0); slices.Contains(holdsAt(f.plan(), "db-2"), HoldStage) {
		t.Errorf("an operator keeps db-0, and db-2 is not in the stage: %v", holdsAt(f.plan(), "db-2"))
	}
}

// TestR91_TheLastBakeNamesTheSlotThatIsAway until the fault speaks against the revision.
func TestR91_TheLastBakeNamesTheSlotThatIsAway(t *testing.T) {
	f := staged("none")
	f.spec.UpdatePolicy.Stages, f.spec.UpdatePolicy.Bake = nil, group.Duration(time.Hour)
	f.at(0, "B").at(1, "B").rec.Rollout.State = operation.BakingState
	for i, want := range []string{", then the revision is stable", " and until db-1 is available again"} {
		if i == 1 {
			f.sick(1)
		}
		if got := f.plan().Rollout.Reason; !strings.HasSuffix(got, "all slots bake until "+f.now.Add(40*time.Minute).UTC().Format(time.TimeOnly)+" UTC"+want) {
			t.Errorf("%d slots are away: %q", i, got)
		}
	}
}
