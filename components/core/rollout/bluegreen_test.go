package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/placement"
	"cadre.dev/core/queue"
)

// renews is a group whose rollouts replace each member, with an extra member that has proven the target B.
func renews() *fixture {
	f := newFixture(4, "none")
	f.spec.Replicas = 3
	one := 1
	f.spec.UpdatePolicy.MinimalAction, f.spec.UpdatePolicy.MaxSurgeFixed = group.ActionReplace, &one
	f.want("B").rolling()
	f.rec.Slots[3].Extra = true
	return f.at(3, "B")
}

// follows makes the members followers without a vote.
func (f *fixture) follows() *fixture {
	f.spec.Workload = group.Workload{Kind: "custom", Settings: map[string]string{"http": "127.0.0.1:80", "voters": "false"}}
	f.spec.Normalize()
	for i := range f.obs.Slots {
		r, yes := f.obs.Slots[i].Report, true
		r.MemberKnown, r.MemberReady, r.Role, r.CaughtUp = true, true, RoleFollower, &yes
	}
	return f
}

func TestR15b_AMemberIsReplacedOnceTheTargetIsProven(t *testing.T) {
	f := renews()
	wantExecutes(t, f.plan(), "REPLACE db-2", "REPLACE db-1") // one may be away, and an extra member is there
	a := actionOf(t, f.plan(), "db-2")
	if a.Actor != operation.ActorRollout || a.To != f.spec.Revision() || a.Takes != group.ActionReplace || a.Class != ClassNonVoter {
		t.Errorf("%+v", a)
	}
	f.sick(3)
	wantHeld(t, f.plan(), "db-2", HoldTargetUnproven)
}

// The holds of a rollout's update hold a rollout's replacement too.
func TestR15b_WhatHoldsAnUpdateHoldsAReplacement(t *testing.T) {
	for predicate, edit := range map[string]func(f *fixture){
		HoldRolloutFailed:  func(f *fixture) { f.rec.Rollout.State = operation.FailedState },
		HoldPaused:         func(f *fixture) { f.obs.Pause = &Override{} },
		HoldPrecondition:   func(f *fixture) { f.obs.Refused = map[string]string{f.spec.Revision(): "no such image"} },
		HoldMaxUnavailable: func(f *fixture) { f.spec.UpdatePolicy.MaxUnavailableFixed = intp(0); f.sick(3).at(0, "B").sick(0) },
		HoldGateClosed: func(f *fixture) {
			f.gate(group.Gate{Name: "g", On: []string{group.GateOnStep}})
		},
	} {
		f := renews()
		edit(f)
		wantHeld(t, f.plan(), "db-2", predicate)
	}
}

// An extra member, a Slot that an operator names, a pinned Slot and a change of one Slot's env are updated in place.
func TestR15b_OtherStepsAreInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture)
		slot string
	}{
		"extra": {func(f *fixture) { f.at(3, "A") }, "db-3"},
		"named": {func(f *fixture) { f.asksFor(RequestUpdate, "db-2", "q") }, "db-2"},
		"pinned": {func(f *fixture) {
			f.at(2, "B").spec.Instances = []group.InstanceSettings{{Ordinal: 2, PinnedRevision: f.rec.Status.Stable}}
		}, "db-2"},
		"never available": {func(f *fixture) {
			f.sick(2).rec.Slots[2].WasAvailableAt = ""
		}, "db-2"},
		"env": {func(f *fixture) {
			f.at(2, "B").rec.Slots[2].OwnEnv = "given"
		}, "db-2"},
	} {
		f := renews()
		c.edit(f)
		a := actionOf(t, f.plan(), c.slot)
		if a.Kind != operation.Update || a.Takes != group.ActionRestart {
			t.Errorf("%s: %s takes %s", name, a.Kind, a.Takes)
		}
	}
}

// TestR15b_AReplacementIsCalledOffBeforeItDeletes: after that it makes the new CVM for any spec.
func TestR15b_AReplacementIsCalledOffBeforeItDeletes(t *testing.T) {
	for _, phase := range []operation.Phase{operation.Draining, operation.Drained} {
		f := renews().op(2, phase, func(op *operation.Operation) { op.Kind, op.Actor = operation.Replace, operation.ActorRollout })
		op := f.rec.Operations[0]
		if why := f.facts(op).Unwanted; why != "" {
			t.Errorf("%s: %s", phase, why)
		}
		f.spec.UpdatePolicy.MinimalAction = group.ActionNone
		if f.facts(op).Unwanted == "" {
			t.Errorf("%s: it goes on although the spec replaces no members any more", phase)
		}
		f.spec.UpdatePolicy.MinimalAction = group.ActionReplace
		f.obs.Refused = map[string]string{f.spec.Revision(): "no such image"}
		if f.facts(op).Refused == "" {
			t.Errorf("%s: it goes on although the platform refuses the revision", phase)
		}
		f.want("C")
		if f.facts(op).Unwanted == "" {
			t.Errorf("%s: it goes on although the spec moved on", phase)
		}
		op.Call.Applied, op.CVM = []operation.Part{operation.PartDelete}, operation.CVM{}
		f.rec.Operations[0] = op
		if why := f.facts(op).Unwanted; op.MadeWay() && why != "" {
			t.Errorf("%s: the slot would stay empty: %s", phase, why)
		}
	}
}

// A rollout that replaces its members has places at the limits of the cluster like each other rollout, and a member that
// is down already waits for no other group.
func TestR98_AReplacementOfARolloutHasAPlace(t *testing.T) {
	f := renews().limits(queue.Limits{Steps: 1}, queue.Group{Name: "app", Steps: 1, Place: queue.Place{Rollout: true}})
	wantHeld(t, f.plan(), "db-2", HoldClusterLimit)
	f = renews().limits(queue.Limits{Steps: 1})
	wantExecutes(t, f.plan(), "REPLACE db-2") // the budget of the group lets two begin
	if p := f.plan(); !p.Status.Queue.Rollout || !p.Limited() {
		t.Errorf("the group has no place for its rollout: %+v", p.Status.Queue)
	}
	f = renews().after("its rollout is RUNNING")
	f.rec.Slots[2].AvailableSince, f.rec.Slots[2].UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
	f.sick(2)
	if a := actionOf(t, f.plan(), "db-2"); messageOf(a, HoldAfterGroup) != "" {
		t.Errorf("the repair waits: %v", a.Holds)
	}
	wantHeld(t, f.plan(), "db-1", HoldAfterGroup)
}

// The pause after a step follows a replacement too.
func TestR96_APauseFollowsAReplacement(t *testing.T) {
	f := renews()
	f.spec.UpdatePolicy.StepDelay = group.Duration(time.Hour)
	f.at(2, "B").op(2, operation.Done, func(op *operation.Operation) {
		op.Kind, op.Actor = operation.Replace, operation.ActorRollout
	})
	wantHeld(t, f.plan(), "db-1", HoldStepDelay)
	f.rec.Operations[0].Actor = operation.ActorHealing
	if a := actionOf(t, f.plan(), "db-1"); !a.Execute {
		t.Errorf("a repair is no step of the rollout, and db-1 is held by %v", a.Holds)
	}
}

// An open replacement keeps the turn of its failure domain.
func TestR31_AnOpenReplacementKeepsTheDomain(t *testing.T) {
	f := renews().onNodes([]placement.Node{{ID: "a"}, {ID: "b"}}, "a", "a", "b", "b")
	f.spec.UpdatePolicy.Order, f.spec.UpdatePolicy.MaxUnavailableFixed = group.OrderByDomain, intp(2)
	f.op(2, operation.Booting, func(op *operation.Operation) { op.Kind, op.Actor = operation.Replace, operation.ActorRollout })
	wantHeld(t, f.plan(), "db-1", HoldDomain)
}

// A leader without a vote is replaced last, and hands over to a member at the target.
func TestR53_TheLeaderIsReplacedLast(t *testing.T) {
	f := renews().follows()
	f.lead(2)
	f.rolling().at(3, "B").rec.Slots[3].Extra = true
	wantHeld(t, f.plan(), "db-2", HoldLeaderLast)
	f.at(0, "B").at(1, "B")
	serves := f.obs.Slots[1]
	f.obs.Slots[1].Admission, f.obs.Slots[1].Report = nil, nil // its new CVM has not attested yet
	f.op(1, operation.Booting, func(op *operation.Operation) { op.Kind, op.Actor = operation.Replace, operation.ActorRollout })
	wantHeld(t, f.plan(), "db-2", HoldLeaderLast)
	f.obs.Slots[1], f.rec.Operations = serves, nil
	if a := actionOf(t, f.plan(), "db-2"); !a.Execute || a.Kind != operation.Replace || a.Transfer == nil || a.Transfer.Candidates[0] != "db-0" {
		t.Errorf("%s, hands over by %+v, held by %v", a.Kind, a.Transfer, a.Holds)
	}
	f.rec.Rollout.Transfers = 1
	wantHeld(t, f.plan(), "db-2", HoldTransferBudget)
}

// An extra member that leads hands over to a member that is to be replaced: that one would wait for the proof by the extra member.
func TestR53_AnExtraMemberThatLeadsGoesFirst(t *testing.T) {
	f := renews().follows()
	f.lead(3)
	f.rolling().at(3, "A").rec.Slots[3].Extra = true
	wantHeld(t, f.plan(), "db-2", HoldTargetUnproven)
	if a := actionOf(t, f.plan(), "db-3"); !a.Execute || a.Kind != operation.Update || a.Transfer == nil || !a.Transfer.Interim || len(a.Transfer.Candidates) != 3 {
		t.Errorf("%s, hands over by %+v, held by %v", a.Kind, a.Transfer, a.Holds)
	}
}
