package rollout

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

func (f *fixture) drains(i int) *fixture {
	f.obs.Slots[i].Drain = &Override{Reason: "its host is mended", By: "op"}
	return f
}

func (f *fixture) protects(i int) *fixture {
	f.obs.Slots[i].Protection = &Override{Reason: "a report runs on it", By: "op"}
	return f
}

func (f *fixture) excludes(i int, from ...string) *fixture {
	f.obs.Slots[i].Exclusion = &Override{Reason: "it is measured", By: "op", Until: f.now.Add(7 * time.Second), Excludes: group.ExclusionOf(from)}
	return f
}

// rests adds the Drain that took ordinal i out of service.
func (f *fixture) rests(i int) *fixture {
	return f.drains(i).op(i, operation.Drained, func(op *operation.Operation) {
		op.Kind, op.Actor, op.To, op.Rollout = operation.Drain, operation.ActorOperator, op.From, ""
		op.Entered[operation.Draining] = f.now.Add(-time.Hour)
	})
}

// TestR88_AnOverrideStopsTheClockForItsSlotAlone: the clock stops for an override only while no other work is left
// that could advance. A member that its workload protects advances only with the workload's permission.
func TestR88_AnOverrideStopsTheClockForItsSlotAlone(t *testing.T) {
	five := func(edit func(f *fixture)) *fixture {
		f := newFixture(5, "none").want("B")
		f.spec.UpdatePolicy.MaxUnavailableFixed = intp(2)
		f.rolling()
		for i := range 5 {
			f.at(i, "B")
		}
		edit(f)
		return f
	}
	refuses := func(f *fixture, i int) {
		f.at(i, "A").obs.Slots[i].Report.MayDisrupt, f.obs.Slots[i].Report.MayDisruptReason = false, "a backup runs"
	}
	for name, c := range map[string]struct {
		edit  func(f *fixture)
		fails bool
	}{
		"a protected one alone is left":          {func(f *fixture) { f.at(0, "A").protects(0) }, false},
		"a drained one alone is left":            {func(f *fixture) { f.at(0, "A").rests(0) }, false},
		"beside a protected one another is down": {func(f *fixture) { f.at(0, "A").protects(0).sick(3) }, true},
		"beside a drained one another is down":   {func(f *fixture) { f.rests(0).sick(3) }, true},
		"beside a protected one another refuses": {func(f *fixture) { f.at(0, "A").protects(0); refuses(f, 3) }, false},
		"beside a drained one another refuses":   {func(f *fixture) { f.rests(0); refuses(f, 3) }, false},
		"the drained ones use the budget up":     {func(f *fixture) { f.rests(0).rests(1).at(3, "A") }, false},
		"an excluded one that is down uses it up": {func(f *fixture) {
			f.at(0, "A").excludes(0).sick(0).at(1, "A").excludes(1).sick(1).at(3, "A")
		}, false},
		"beside an excluded one that is down another is": {func(f *fixture) { f.at(0, "A").excludes(0).sick(0).at(3, "A").sick(3) }, true},
		"beside an excluded one that is down is room":    {func(f *fixture) { f.at(0, "A").excludes(0).sick(0).at(3, "A"); refuses(f, 3) }, true},
		"what is down is healed": {func(f *fixture) {
			f.at(0, "A").excludes(0, group.FromRollout).sick(0).at(1, "A").excludes(1, group.FromRollout).sick(1).at(3, "A")
		}, true},
		"what is excluded serves":                         {func(f *fixture) { f.at(0, "A").excludes(0).at(3, "A"); refuses(f, 3) }, false},
		"a protected one that is well, and a drained one": {func(f *fixture) { f.at(1, "A").protects(1).rests(0) }, false},
	} {
		f := five(c.edit)
		f.rec.Rollout.ProgressAt = f.now.Add(-24 * time.Hour)
		if p := f.plan(); (p.Rollout.State == operation.FailedState) != c.fails {
			t.Errorf("%s: %s: %s", name, p.Rollout.State, p.Rollout.Reason)
		}
	}
}

// TestR88_ADrainedVoterHoldsTheOthersWithoutADeadline: while drained voters keep the quorum away, only the operator
// can restore it.
func TestR88_ADrainedVoterHoldsTheOthersWithoutADeadline(t *testing.T) {
	f := newFixture(3, "consul").want("B")
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(2)
	f.rolling().rests(2)
	f.rec.Rollout.ProgressAt = f.now.Add(-24 * time.Hour)
	if p := f.plan(); p.Rollout.State != operation.Running {
		t.Errorf("%s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

// TestR139_AHeldStepNamesTheDrain: a drain is named as the hold of the work that the drain keeps back.
func TestR139_AHeldStepNamesTheDrain(t *testing.T) {
	missing := newFixture(3, "none").missing(1).drains(1)
	wantHeld(t, missing.plan(), "db-1", HoldDrained)

	gone := newFixture(3, "none").drains(2)
	gone.spec.Replicas = 2
	wantHeld(t, gone.plan(), "db-2", HoldDrained)

	for kind, want := range map[RequestKind]operation.Kind{RequestRestart: operation.Restart, RequestReplace: operation.Replace, RequestUpdate: operation.Update} {
		f := newFixture(3, "none").want("B").rolling().rests(1)
		f.obs.Requests = []Request{{ID: "q", Kind: kind, Slot: "db-1", By: "op"}}
		p := f.plan()
		held := false
		for _, a := range p.Actions {
			held = held || a.Slot == "db-1" && a.Kind == want && !a.Execute && a.HeldBy(HoldDrained)
		}
		if !held || len(p.Answered) != 0 {
			t.Errorf("%s: answered %v\n%s", kind, p.Answered, describe(p))
		}
	}
	asked := newFixture(3, "none").drains(1).asks("db-1", "q")
	wantExecutes(t, asked.plan(), "DRAIN db-1") // the drain comes first
}

// TestR139_AProtectedMemberIsRepairedDespiteADrain: a protection promises that a down member is restarted on its disk,
// and keeps a drain as well.
func TestR139_AProtectedMemberIsRepairedDespiteADrain(t *testing.T) {
	down := func(edit func(f *fixture)) *fixture {
		f := newFixture(3, "none")
		f.spec.AutoHealing = &group.AutoHealing{}
		f.spec.Normalize()
		edit(f)
		return f.stopped(1)
	}
	wantExecutes(t, down(func(f *fixture) { f.protects(1).drains(1) }).plan(), "RESTART db-1")
	wantExecutes(t, down(func(f *fixture) { f.want("B").rolling().protects(1) }).plan(), "RESTART db-1")
	f := down(func(f *fixture) { f.protects(1).drains(1) })
	f.op(1, operation.Drained, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Before.Unavailable, op.Way.SkipDrain, op.To = operation.Restart, operation.ActorHealing, true, true, op.From
	})
	if why := f.facts(f.rec.Operations[0]).Unwanted; why != "" {
		t.Errorf("it is called off: %s", why)
	}
	wantExecutes(t, down(func(f *fixture) { f.drains(1) }).plan(), "DRAIN db-1")
}

// TestR92_ACalledOffStepNamesItsFreeze: the reason of the step has the freeze's author and reason.
func TestR92_ACalledOffStepNamesItsFreeze(t *testing.T) {
	f := newFixture(3, "none")
	f.obs.Freeze = &Override{Reason: "we look into it", By: "ann", Group: "db"}
	f.op(1, operation.Draining, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Request.ID, op.To = operation.Restart, operation.ActorOperator, "r", op.From
	})
	if got := f.facts(f.rec.Operations[0]); !got.Paused || got.PausedBy != "frozen by an operator (ann): we look into it" {
		t.Errorf("%t: %q", got.Paused, got.PausedBy)
	}
	f.obs.Freeze, f.obs.Pause = nil, &Override{}
	if got := f.facts(f.rec.Operations[0]); got.Paused {
		t.Errorf("what is asked for by name goes on in a pause: %q", got.PausedBy)
	}
}

// TestR139_ThePlanShowsAFreezeThatHoldsNothing: an empty plan would hide why the next step waits.
func TestR139_ThePlanShowsAFreezeThatHoldsNothing(t *testing.T) {
	f := newFixture(3, "none")
	f.obs.Freeze = &Override{Reason: "we look into it", By: "ann", Group: "db"}
	const told = "frozen by an operator (ann): we look into it; lift the freeze to go on: cadre unfreeze db"
	if p := f.plan(); len(p.Warnings) != 1 || p.Warnings[0] != told {
		t.Errorf("%q", p.Warnings)
	}
	p := f.want("B").plan()
	if wantHeld(t, p, "db-1", HoldFrozen); len(p.Warnings) != 0 {
		t.Errorf("told twice: %q", p.Warnings)
	}
}

// TestR139_AnExclusionEndsWithItsTime: the status names an exclusion when the plan has no step of the Slot. The
// excluded work begins at the instant at which the exclusion ends.
func TestR139_AnExclusionEndsWithItsTime(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().at(0, "B").at(2, "B").excludes(1)
	const told = "db-1 is excluded from rollout and healing by an operator (op): it is measured, until "
	p := f.plan()
	if len(p.Actions) != 0 || p.Rollout.State != operation.PartitionReached || !strings.Contains(p.Rollout.Reason, told) {
		t.Errorf("%s: %s\n%s", p.Rollout.State, p.Rollout.Reason, describe(p))
	}
	if len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], told) || !strings.HasSuffix(p.Warnings[0], "to go on: cadre instance include db-1") {
		t.Errorf("warnings %q", p.Warnings)
	}
	if got := p.Status.Instances[1].Exclusion; got == nil || got.Reason != "it is measured" || strings.Join(got.From, " ") != "rollout healing" {
		t.Errorf("the status has %+v", got)
	}
	if want := f.now.Add(7 * time.Second); !p.Wake.Equal(want) {
		t.Errorf("wakes at %s, want %s", p.Wake, want)
	}
	f.now = p.Wake
	for i := range f.obs.Slots {
		f.obs.Slots[i].Report.ReceivedAt = f.now
	}
	p = f.plan()
	wantExecutes(t, p, "UPDATE db-1")
	if len(p.Warnings) != 0 || p.Status.Instances[1].Exclusion != nil {
		t.Errorf("it is over, and told all the same: %q", p.Warnings)
	}
}

// TestR139_AnExclusionCallsOffAStepThatHasNotActed: the exclusion calls off a repair or an update that has not acted.
func TestR139_AnExclusionCallsOffAStepThatHasNotActed(t *testing.T) {
	heals := newFixture(3, "none")
	heals.spec.AutoHealing = &group.AutoHealing{}
	heals.spec.Normalize()
	heals.stopped(1).op(1, operation.Drained, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Before.Unavailable, op.Way.SkipDrain, op.To = operation.Restart, operation.ActorHealing, true, true, op.From
	})
	updates := newFixture(3, "none").want("B").rolling().op(1, operation.Draining, func(*operation.Operation) {})
	for from, c := range map[string]struct {
		f    *fixture
		want string
	}{
		group.FromHealing: {heals, "the slot is excluded from healing"},
		group.FromRollout: {updates, "the slot is not outdated any more"},
	} {
		other := group.FromRollout
		if from == other {
			other = group.FromHealing
		}
		if got := c.f.excludes(1, other).facts(c.f.rec.Operations[0]).Unwanted; got != "" {
			t.Errorf("%s: an exclusion from %s calls it off: %s", from, other, got)
		}
		if got := c.f.excludes(1, from).facts(c.f.rec.Operations[0]).Unwanted; got != c.want {
			t.Errorf("%s: %q, want %q", from, got, c.want)
		}
	}
	if p := heals.excludes(1, group.FromHealing).plan(); len(p.Warnings) != 1 {
		t.Errorf("what is not healed is not told: %q", p.Warnings)
	}
}

// TestR139_ARolloutNamesTheSlotsItLeftBehind: a rollout names the Slots it left behind, and a reason whose length does
// not grow with the group.
func TestR139_ARolloutNamesTheSlotsItLeftBehind(t *testing.T) {
	f := newFixture(8, "none").want("B").rolling()
	for i := range 7 {
		f.excludes(i, group.FromRollout)
	}
	f.spec.Instances = []group.InstanceSettings{{Ordinal: 1, ExcludeFromRollout: true}}
	const want = "every slot but db-0, db-1, db-2, db-3, db-4, and 2 more is at the target: an operator's exclusion and exclude_from_rollout keep them back"
	if p := f.at(7, "B").plan(); p.Rollout.State != operation.PartitionReached || p.Rollout.Reason != want {
		t.Errorf("%s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

// TestADrainedMemberIsNotHealedInstead: an unhealthy member that an operator drains is drained first, and the drain
// holds healing. A protected member is repaired anyway.
func TestADrainedMemberIsNotHealedInstead(t *testing.T) {
	f := heals(3, "none").failing(1, "ready").drains(1)
	if a := actionOf(t, f.plan(), "db-1"); a.Kind != operation.Drain || a.Actor != operation.ActorOperator {
		t.Errorf("%s by %s, want the drain", a.Kind, a.Actor)
	}
	f.protects(1)
	if a := actionOf(t, f.plan(), "db-1"); a.Kind != operation.Restart || a.Actor != operation.ActorHealing {
		t.Errorf("%s by %s, want what heals it", a.Kind, a.Actor)
	}
}

// TestR139_ADrainEndsWithItsOverrideOrItsGroup: then nothing is to be kept out of service.
func TestR139_ADrainEndsWithItsOverrideOrItsGroup(t *testing.T) {
	for want, edit := range map[string]func(f *fixture){
		"":                             func(*fixture) {},
		"the group is being deleted":   func(f *fixture) { f.obs.Deletion = &Deletion{} },
		"undrained, or its time ended": func(f *fixture) { f.obs.Slots[1].Drain = nil },
	} {
		f := newFixture(3, "none").rests(1)
		edit(f)
		if got := f.facts(f.rec.Operations[0]).Unwanted; got != want {
			t.Errorf("unwanted %q, want %q", got, want)
		}
	}
}

// TestR139_NoDrainBeginsOfACVMThatNoListingShowed: the Slot has no CVM as far as the records say, and the platform does
// not answer.
func TestR139_NoDrainBeginsOfACVMThatNoListingShowed(t *testing.T) {
	if p := newFixture(3, "none").missing(1).drains(1).blind("429").plan(); hasAction(p, "db-1") {
		t.Errorf("%s is planned for db-1", actionOf(t, p, "db-1").Kind)
	}
}
