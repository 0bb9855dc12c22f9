package rollout

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// founding is a group whose CVMs run, before its workload was first up.
func founding(n int, kind string) *fixture {
	f := newFixture(n, kind)
	f.spec.ManagementPolicy = group.Parallel
	for i := range n {
		f.rec.Slots[i].WasAvailableAt, f.rec.Slots[i].AvailableSince, f.rec.Slots[i].AvailableBoot = "", time.Time{}, ""
		r, no := f.obs.Slots[i].Report, false
		r.Liveness, r.MemberReady, r.CaughtUp, r.Voters, r.QuorumMember, r.Role, r.Leader = LivenessRefused, false, &no, nil, false, RoleUnknown, ""
		r.Health = Unknown
	}
	f.rec.Rollout.State, f.rec.Status.Stable = operation.Running, ""
	f.rec.Slots = f.plan().Slots // as the first pass recorded them
	return f
}

// TestR49_TheFoundersOfASetStayTheSame: members that bootstrap a set from different lists make two sets, each with a
// majority.
func TestR49_TheFoundersOfASetStayTheSame(t *testing.T) {
	for _, kind := range []string{"etcd", "consul"} {
		three := []string{"db-0", "db-1", "db-2"}
		f := founding(3, kind)
		f.spec.Replicas = 5
		p := f.plan()
		for _, r := range p.Slots[:3] {
			if r.Membership == nil || !slices.Equal(r.Membership.Founders, three) {
				t.Errorf("%s: %s founds with %+v", kind, r.Slot, r.Membership)
			}
		}
		wantHeld(t, p, "db-3", HoldSetChanging)
		wantHeld(t, p, "db-4", HoldSetChanging)

		f = founding(3, kind)
		f.spec.Replicas, f.obs.DeleteDisks = 2, []string{"db-2"}
		p = f.plan()
		wantHeld(t, p, "db-2", HoldSetChanging)
		if got := p.Slots[0].Membership; got == nil || !slices.Equal(got.Founders, three) {
			t.Errorf("%s: db-0 founds with %+v", kind, got)
		}

		// Before the first CVM the list is the spec's, even after a different list in an earlier pass.
		f = founding(3, kind).missing(0).missing(1).missing(2)
		f.spec.Replicas = 1
		if got := f.plan().Slots[0].Membership; got == nil || !slices.Equal(got.Founders, three[:1]) {
			t.Errorf("%s: db-0 founds with %+v", kind, got)
		}
	}
	// A late founder bootstraps with the list of the others; a member that is up needs no list.
	f := newFixture(3, "etcd")
	f.rec.Slots[2].WasAvailableAt, f.obs.Slots[2].Report = "", nil
	f.rec.Slots[2].Membership = &group.Membership{Founders: []string{"db-0", "db-1", "db-2"}}
	f.spec.Replicas = 5
	p := f.plan()
	if got := p.Slots[2].Membership; got == nil || len(got.Founders) != 3 || p.Slots[0].Membership != nil {
		t.Errorf("db-2: %+v, db-0: %+v", got, p.Slots[0].Membership)
	}
}

// TestR49_ALostServerIsTakenOutBeforeItIsMadeAgain: where members join without the coordinator's order, the old vote
// is removed before another CVM is made.
func TestR49_ALostServerIsTakenOutBeforeItIsMadeAgain(t *testing.T) {
	f := newFixture(3, "consul")
	f.spec.ManagementPolicy = group.Parallel
	f.obs.Slots[2] = SlotObservation{Slot: "db-2", Ordinal: 2}
	f.rec.Slots[2] = f.rec.Slots[2].Unbound("replaced", f.now.Add(-20*time.Minute))
	f.rec.Slots[2].Incarnation = 1
	p := f.plan()
	wantHeld(t, p, "db-2", HoldSetChanging)
	if changeOf(p) != "db-0: remove db-2" {
		t.Errorf("it is to go first: %q", changeOf(p))
	}
	f.sick(1)
	p = f.plan()
	wantHeld(t, p, "db-2", HoldSetChanging)
	if changeOf(p) != "" {
		t.Errorf("with a lost majority: %q", changeOf(p))
	}
	f = newFixture(3, "consul")
	f.obs.Slots[2] = SlotObservation{Slot: "db-2", Ordinal: 2}
	f.rec.Slots[2] = f.rec.Slots[2].Unbound("replaced", f.now.Add(-20*time.Minute))
	f.rec.Slots[2].Incarnation = 1
	for i := range 2 {
		f.obs.Slots[i].Report.Voters = []string{"db-0", "db-1"}
	}
	wantExecutes(t, f.plan(), "CREATE db-2")
}

// TestOneListingForgetsNoReportingMember: forgetting a Slot ends the lease and the tokens of its holder.
func TestOneListingForgetsNoReportingMember(t *testing.T) {
	for _, kind := range []string{"none", "patroni", "etcd"} {
		f := newFixture(3, kind)
		f.spec.Replicas = 2
		f.obs.Slots[2].Instance = nil
		f.rec.Slots[2].MissedSince = f.now.Add(-time.Hour)
		if p := f.plan(); len(p.Forget) != 0 || changeOf(p) != "" {
			t.Errorf("%s: its agent reports: forgets %v, %q", kind, p.Forget, changeOf(p))
		}
		f.obs.Slots[2].Report, f.obs.DeleteDisks = nil, []string{"db-2"}
		f.obs.Slots[2].Protection = &Override{Reason: "its host is away"}
		if p := f.plan(); len(p.Forget) != 0 || changeOf(p) != "" {
			t.Errorf("%s: protected: forgets %v, %q", kind, p.Forget, changeOf(p))
		}
		f.obs.Slots[2].Protection, f.obs.Freeze = nil, &Override{}
		if p := f.plan(); len(p.Forget) != 0 || changeOf(p) != "" {
			t.Errorf("%s: frozen: forgets %v, %q", kind, p.Forget, changeOf(p))
		}
		f.obs.Freeze = nil
		if p := f.plan(); len(p.Forget) == 0 && changeOf(p) == "" {
			t.Errorf("%s: nothing is left of it, and nothing keeps it", kind)
		}
	}
}

// TestR47_ALeavingMemberHoldsEarlierSlotsToo: R47 holds for any order of the Slots.
func TestR47_ALeavingMemberHoldsEarlierSlotsToo(t *testing.T) {
	two := 2
	for _, other := range []string{"db-1", "db-3"} {
		f := newFixture(5, "etcd")
		f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.ParallelVoters = &two, true
		f.rolling().op(2, operation.Drained, func(op *operation.Operation) {
			op.Kind, op.Set.Leaves, op.Actor = operation.Replace, true, operation.ActorOperator
		})
		wantHeld(t, f.asks(other, "q").plan(), other, HoldSetChanging)
	}
}

// TestAKeptMemberBlocksNoOtherRemoval: a removal that an operator blocks does not block the other removals.
func TestAKeptMemberBlocksNoOtherRemoval(t *testing.T) {
	for name, keep := range map[string]func(*fixture){
		"drained":   func(f *fixture) { f.obs.Slots[4].Drain = &Override{Reason: "x"} },
		"protected": func(f *fixture) { f.obs.Slots[4].Protection = &Override{Reason: "x"} },
		"its disk":  func(f *fixture) { f.obs.DeleteDisks = []string{"db-3"} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(5, "none")
			f.spec.Replicas, f.obs.DeleteDisks = 3, []string{"db-3", "db-4"}
			keep(f)
			wantExecutes(t, f.plan(), "DELETE db-3")
		})
	}
}

// TestADownMemberIsNotRefreshed: a new attestation does not repair a broken Boot.
func TestADownMemberIsNotRefreshed(t *testing.T) {
	f := heals(3, "patroni")
	f.sick(1)
	f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince, f.rec.Slots[1].DownSince = time.Time{}, f.now.Add(-10*time.Minute), f.now.Add(-10*time.Minute)
	f.hooks().rolling()
	for _, a := range f.plan().Actions {
		if a.Slot == "db-1" && a.Takes != group.ActionRestart {
			t.Errorf("its update takes %s", a.Takes)
		}
	}
	// If only a refresh is allowed, healing restarts the member first, at its current Revision.
	f.spec.UpdatePolicy.MostDisruptiveAllowedAction = group.ActionRefresh
	for _, a := range f.plan().Actions {
		if a.Slot == "db-1" && (a.Kind != operation.Restart || a.Actor != operation.ActorHealing) {
			t.Errorf("%s of db-1 by %s: %v", a.Kind, a.Actor, a.Holds)
		}
	}
}

// TestADrainedSlotHoldsNoRefresh: a Slot that an operator drained does not hold the refresh of another Slot.
func TestADrainedSlotHoldsNoRefresh(t *testing.T) {
	f := heals(5, "none")
	two := 2
	f.spec.UpdatePolicy.MaxUnavailableFixed = &two
	f.spec.UpdatePolicy.MostDisruptiveAllowedAction = group.ActionRefresh
	f.hooks().rolling()
	f.op(1, operation.Drained, func(op *operation.Operation) { op.Kind, op.Rollout = operation.Drain, "" })
	f.obs.Slots[1].Drain = &Override{Reason: "x"}
	if p := f.plan(); !slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Execute && a.Kind == operation.Update }) {
		t.Errorf("nobody is refreshed: %+v", p.Actions)
	}
}

// TestR15a_APinMovesBehindAnExtraSlot: a pinned Slot moves after an extra Slot is up, where no member may be away.
func TestR15a_APinMovesBehindAnExtraSlot(t *testing.T) {
	f := newFixture(3, "etcd").recorded()
	zero, one := 0, 1
	f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.MaxSurgeFixed = &zero, &one
	f.spec.Instances = []group.InstanceSettings{{Ordinal: 2, PinnedRevision: revisionOf(f.spec, "B")}}
	f.rec.Rollout = f.plan().Rollout
	p := f.plan()
	if !slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Kind == operation.Create && a.Slot == "db-3" }) {
		t.Errorf("no extra slot: %+v", p.Actions)
	}
}

// hooks changes only the agent's own work: the running members prove it without a boot.
func (f *fixture) hooks() *fixture {
	r := f.rec.Revisions[f.spec.Revision()]
	r.AgentSpec, r.Template = f.spec.AgentSpec(), f.spec.Template
	f.rec.Revisions[f.spec.Revision()] = r
	f.spec.HealthChecks = append(slices.Clone(f.spec.HealthChecks), group.HealthCheck{Name: "more", TCP: &group.TCPCheck{Port: 81}})
	f.spec.Normalize()
	f.rec.Revisions[f.spec.Revision()] = group.RevisionRecord{Digest: f.spec.Revision(), ComposeHash: hashOf("A"), Template: f.spec.Template, AgentSpec: f.spec.AgentSpec()}
	return f
}

// TestARemovalFollowsTheEndOfADrain: a Slot has one Operation at a time, also while its drain ends.
func TestARemovalFollowsTheEndOfADrain(t *testing.T) {
	f := newFixture(4, "none")
	f.spec.Replicas, f.obs.DeleteDisks = 3, []string{"db-3"}
	f.op(3, operation.Drained, func(op *operation.Operation) { op.Kind, op.Rollout, op.Order = operation.Drain, "", 40 })
	wantExecutes(t, f.plan())
	f.obs.Slots[3].Drain = &Override{Reason: "x"}
	wantExecutes(t, f.plan())
	f.obs.Slots[3].Drain, f.rec.Operations = nil, nil
	wantExecutes(t, f.plan(), "DELETE db-3")
}

// TestR15a_APinnedSlotsEnvIsItsPins: the pinned Revision decides about a pinned Slot's own env.
func TestR15a_APinnedSlotsEnvIsItsPins(t *testing.T) {
	for _, c := range []struct {
		own   string
		waits bool
	}{{"red", false}, {"blue", true}} {
		f := newFixture(3, "none").recorded()
		pin := revisionOf(f.spec, "A")
		old := f.rec.Revisions[pin]
		old.Template.Env = map[string]string{"COLOR": "red"}
		f.rec.Revisions[pin] = old
		f.want("B")
		f.spec.Template.Env = map[string]string{"COLOR": "blue"}
		f.spec.Instances = []group.InstanceSettings{{Ordinal: 1, PinnedRevision: pin, Env: map[string]string{"COLOR": c.own}}}
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		if got := w.envUnapplied(w.find("db-1")); got != c.waits {
			t.Fatalf("%s: unapplied %t", c.own, got)
		}
		if got := w.stepOf(&f.rec.Slots[1]) != group.ActionNone; got != c.waits {
			t.Errorf("%s: a step follows %t, want %t", c.own, got, c.waits)
		}
	}
}

// TestR15a_APinToAnUnrecordedRevisionKeepsItsSlot: the Slot stays where it is, and the status says so. A pin to the
// target needs no record of the target.
func TestR15a_APinToAnUnrecordedRevisionKeepsItsSlot(t *testing.T) {
	f := newFixture(3, "none").want("B")
	a, b := revisionOf(f.spec, "A"), revisionOf(f.spec, "B")
	for name, c := range map[string]struct {
		pin, want string
		kept      bool
	}{
		"recorded":     {a, a, false},
		"not recorded": {"0123456789abcdef0123456789abcdef", a, true},
		"the target":   {b, b, false},
	} {
		w := seenBy(f)
		if c.pin == b {
			delete(w.rec.Revisions, b)
		}
		if got := w.pinned(w.find("db-1"), c.pin); got.revision != c.want || got.kept != c.kept || got.why == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
