package rollout

import (
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// What blocks others is a newcomer of which there is something, or which is being made.
func TestR47_WhoWasNeverMadeIsNotJoining(t *testing.T) {
	newcomer := func() *fixture {
		f := newFixture(4, "etcd").rolling()
		f.joiner(3)
		f.missing(3).rec.Slots[3].Membership = &group.Membership{Joins: true}
		return f
	}
	for name, c := range map[string]struct {
		change func(f *fixture)
		want   string
	}{
		"its creation was refused": {func(f *fixture) {
			f.op(3, operation.Failed, func(op *operation.Operation) { op.Kind, op.Cause = operation.Create, operation.CauseRefused })
		}, ""},
		"its creation is under way": {func(f *fixture) {
			f.op(3, operation.Acting, func(op *operation.Operation) { op.Kind = operation.Create })
		}, "db-3 is joining"},
		"its CVM is not listed any more": {func(f *fixture) { f.rec.Slots[3].VMUUID = "vm-db-3" }, "db-3 is joining"},
	} {
		f := newcomer()
		c.change(f)
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		if got := w.pendingIn(w.find("db-1")); got != c.want {
			t.Errorf("%s: pending is %q, want %q", name, got, c.want)
		}
		// That it is to join is kept all the same: it founds no set of its own later.
		if got := f.plan().Slots[3].Membership; got == nil || !got.Joins {
			t.Errorf("%s: its part in the set is %+v", name, got)
		}
	}
}

// A dead voter is not taken out to be replaced while nobody could come in for it.
func TestR49_ADeadVoterStaysWhileNobodyCanComeIn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fixture)
		held   bool
	}{
		"the newcomer comes up": {func(f *fixture) { f.obs.Slots[3].Report.MemberAlive = true }, false},
		"it waits to be listed": {func(f *fixture) { f.obs.Slots[0].Report.Learners = nil; f.rec.Slots[3].Membership.Set = nil }, false},
		"its step is under way": {func(f *fixture) {
			f.op(3, operation.Joining, func(op *operation.Operation) { op.Kind = operation.Create })
		}, false},
		"its workload is down": {func(*fixture) {}, true},
		"its agent is silent":  {func(f *fixture) { f.obs.Slots[3].Report = nil }, true},
		"it is to go":          {func(f *fixture) { f.obs.Slots[3].Report.MemberAlive = true; f.spec.Replicas = 3 }, true},
		"a learner is nobody that anyone knows": {func(f *fixture) {
			f.obs.Slots[3].Report.MemberAlive = true
			f.obs.Slots[0].Report.Learners = []string{"db-9"}
		}, true},
	} {
		f := newFixture(4, "etcd").rolling()
		f.joiner(3, "db-0", "db-1", "db-2", "db-3")
		f.obs.Slots[0].Report.Learners = []string{"db-3"}
		c.change(f)
		f.down(1)
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		holds := w.holdsOfSet(candidate{m: w.find("db-1"), kind: operation.Replace}, look{taken: &taken{}})
		if held := len(holds) > 0 && holds[0].Predicate == HoldSetChanging; held != c.held {
			t.Errorf("%s: held %t by %v, want %t", name, held, holds, c.held)
		}
	}
}

// A condemned member that has no vote goes whoever else is down: they may wait for it.
func TestR104_WhoHasNoVoteGoesFirst(t *testing.T) {
	f := newFixture(4, "etcd")
	f.spec.Replicas, f.obs.DeleteDisks = 3, []string{"db-3"}
	f.down(1)
	wantHeld(t, f.plan(), "db-3", HoldOthersUnavailable)
	f.joiner(3, "db-0", "db-1", "db-2", "db-3")
	f.obs.Slots[0].Report.Learners = []string{"db-3"}
	wantExecutes(t, f.plan(), "DELETE db-3")
	f.rolling().op(1, operation.Failed, func(op *operation.Operation) { op.Cause = operation.CauseDeadline })
	wantExecutes(t, f.plan(), "DELETE db-3")
	f.leavingOp(3)
	if facts := f.facts(f.rec.Operations[len(f.rec.Operations)-1]); !facts.Safe {
		t.Errorf("the second look: %s", facts.SafeReason)
	}
}

// Nothing is called off before a removal would find all that was made.
func TestR109_ASlotIsToGoWithTheCVMThatIsItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fixture)
		want   bool
	}{
		"condemned":               {func(*fixture) {}, true},
		"wanted":                  {func(f *fixture) { f.spec.Replicas = 4 }, false},
		"not listed":              {func(f *fixture) { f.obs.Slots[3].Instance = nil }, false},
		"not recorded":            {func(f *fixture) { f.rec.Slots[3].VMUUID = "" }, false},
		"another CVM is recorded": {func(f *fixture) { f.rec.Slots[3].VMUUID = "vm-before" }, false},
		"another one has its name": {func(f *fixture) {
			f.obs.Slots[3].Duplicates = []Instance{{VMUUID: "vm-other"}}
		}, false},
		"the group goes while its set is founded": {func(f *fixture) {
			f.obs.Deletion = &Deletion{}
		}, true},
	} {
		f := newFixture(4, "etcd").rolling()
		f.spec.Replicas = 3
		f.op(3, operation.Booting, func(op *operation.Operation) { op.Kind = operation.Create })
		c.change(f)
		if got := f.facts(f.rec.Operations[0]).ToGo; got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
