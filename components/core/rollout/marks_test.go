package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

func (f *fixture) drains(i int) *fixture {
	f.obs.Slots[i].Drain = &Mark{Reason: "its host is mended", By: "op"}
	return f
}

func (f *fixture) protects(i int) *fixture {
	f.obs.Slots[i].Protection = &Mark{Reason: "a report runs on it", By: "op"}
	return f
}

// rests adds the Drain that took ordinal i out of service.
func (f *fixture) rests(i int) *fixture {
	return f.drains(i).op(i, operation.Drained, func(op *operation.Operation) {
		op.Kind, op.Actor, op.To, op.Rollout = operation.Drain, operation.ActorOperator, op.From, ""
		op.Entered[operation.Draining] = f.now.Add(-time.Hour)
	})
}

// The clock stands for a mark only while nothing else is left that could get ahead.
func TestR88_AMarkStopsTheClockForItsSlotAlone(t *testing.T) {
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
		"a protected one alone is left":                   {func(f *fixture) { f.at(0, "A").protects(0) }, false},
		"a drained one alone is left":                     {func(f *fixture) { f.at(0, "A").rests(0) }, false},
		"beside a protected one another is down":          {func(f *fixture) { f.at(0, "A").protects(0).sick(3) }, true},
		"beside a drained one another is down":            {func(f *fixture) { f.rests(0).sick(3) }, true},
		"beside a protected one another refuses":          {func(f *fixture) { f.at(0, "A").protects(0); refuses(f, 3) }, true},
		"beside a drained one another refuses":            {func(f *fixture) { f.rests(0); refuses(f, 3) }, true},
		"the drained ones use the budget up":              {func(f *fixture) { f.rests(0).rests(1).at(3, "A") }, false},
		"a protected one that is well, and a drained one": {func(f *fixture) { f.at(1, "A").protects(1).rests(0) }, false},
	} {
		f := five(c.edit)
		f.rec.Rollout.ProgressAt = f.now.Add(-24 * time.Hour)
		if p := f.plan(); (p.Rollout.State == operation.FailedState) != c.fails {
			t.Errorf("%s: %s: %s", name, p.Rollout.State, p.Rollout.Reason)
		}
	}
}

// The quorum that drained voters take away is theirs to give back.
func TestR88_ADrainedVoterHoldsTheOthersWithoutADeadline(t *testing.T) {
	f := newFixture(3, "consul").want("B")
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(2)
	f.rolling().rests(2)
	f.rec.Rollout.ProgressAt = f.now.Add(-24 * time.Hour)
	if p := f.plan(); p.Rollout.State != operation.Running {
		t.Errorf("%s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}

// What a drain keeps from a Slot is told as held by it.
func TestR139_WhatADrainKeepsBackIsHeldByName(t *testing.T) {
	missing := newFixture(3, "none").missing(1).drains(1)
	wantHeld(t, missing.plan(), "db-1", HoldDrained)

	gone := newFixture(3, "none").drains(2)
	gone.spec.Replicas = 2
	wantHeld(t, gone.plan(), "db-2", HoldDrained)

	for kind, want := range map[RequestKind]operation.Kind{RequestRestart: operation.Restart, RequestReplace: operation.Replace} {
		f := newFixture(3, "none").rests(1)
		f.obs.Requests = []Request{{ID: "q", Kind: kind, Slot: "db-1", By: "op"}}
		p := f.plan()
		held := false
		for _, a := range p.Actions {
			held = held || a.Slot == "db-1" && a.Kind == want && !a.Execute && heldBy(a, HoldDrained)
		}
		if !held || len(p.Answered) != 0 {
			t.Errorf("%s: answered %v\n%s", kind, p.Answered, describe(p))
		}
	}
	asked := newFixture(3, "none").drains(1).asks("db-1", "q")
	wantExecutes(t, asked.plan(), "DRAIN db-1") // it is taken out of service first
}

// A protection promises that what is down is restarted on its disk, and keeps a drain as well.
func TestR139_WhatIsProtectedIsRepairedThoughItIsToBeDrained(t *testing.T) {
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
	f.op(1, operation.Recorded, func(op *operation.Operation) {
		op.Kind, op.Actor, op.WasUnavailable, op.SkipDrain, op.To = operation.Restart, operation.ActorHealing, true, true, op.From
	})
	if why := f.facts(f.rec.Operations[0]).Unwanted; why != "" {
		t.Errorf("it is called off: %s", why)
	}
	wantExecutes(t, down(func(f *fixture) { f.drains(1) }).plan(), "DRAIN db-1")
}
