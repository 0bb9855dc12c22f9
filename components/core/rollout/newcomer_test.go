package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR47_AnUnmadeMemberIsNotJoining: only a newcomer that exists or is being made blocks other members.
func TestR47_AnUnmadeMemberIsNotJoining(t *testing.T) {
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
			f.op(3, operation.Failed, func(op *operation.Operation) { op.Kind, op.Failure.Cause = operation.Create, operation.CauseRefused })
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
		// The record keeps that the member joins, so that it never bootstraps a set of its own.
		if got := f.plan().Slots[3].Membership; got == nil || !got.Joins {
			t.Errorf("%s: its part in the set is %+v", name, got)
		}
	}
}

// TestR49_ADeadVoterStaysWhileNoNewcomerCanJoin: a dead voter is removed for replacement only if a newcomer could join.
func TestR49_ADeadVoterStaysWhileNoNewcomerCanJoin(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fixture)
		held   bool
	}{
		"the newcomer comes up": {func(f *fixture) { f.obs.Slots[3].Report.Liveness = LivenessAlive }, false},
		"it waits to be listed": {func(f *fixture) { f.obs.Slots[0].Report.Learners = nil; f.rec.Slots[3].Membership.Set = nil }, false},
		"its step is under way": {func(f *fixture) {
			f.op(3, operation.Joining, func(op *operation.Operation) { op.Kind = operation.Create })
		}, false},
		"its workload is down": {func(*fixture) {}, true},
		"its agent is silent":  {func(f *fixture) { f.obs.Slots[3].Report = nil }, true},
		"it is to go":          {func(f *fixture) { f.obs.Slots[3].Report.Liveness = LivenessAlive; f.spec.Replicas = 3 }, true},
		"a learner is nobody that anyone knows": {func(f *fixture) {
			f.obs.Slots[3].Report.Liveness = LivenessAlive
			f.obs.Slots[0].Report.Learners = []string{"db-9"}
		}, true},
	} {
		f := newFixture(4, "etcd").rolling()
		f.joiner(3, "db-0", "db-1", "db-2", "db-3")
		f.obs.Slots[0].Report.Learners = []string{"db-3"}
		c.change(f)
		f.down(1)
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		holds := w.holdsOfSet(candidate{m: w.find("db-1"), kind: operation.Replace}, evaluation{taken: &taken{}})
		if held := len(holds) > 0 && holds[0].Predicate == HoldSetChanging; held != c.held {
			t.Errorf("%s: held %t by %v, want %t", name, held, holds, c.held)
		}
	}
}

// TestR104_AMemberWithoutAVoteGoesFirst: a terminating member without a vote goes even if another member is down: the
// others may wait for it.
func TestR104_AMemberWithoutAVoteGoesFirst(t *testing.T) {
	f := newFixture(4, "etcd")
	f.spec.Replicas, f.obs.DeleteDisks = 3, []string{"db-3"}
	f.down(1)
	wantHeld(t, f.plan(), "db-3", HoldOthersUnavailable)
	f.joiner(3, "db-0", "db-1", "db-2", "db-3")
	f.obs.Slots[0].Report.Learners = []string{"db-3"}
	wantExecutes(t, f.plan(), "DELETE db-3")
	f.rolling().op(1, operation.Failed, func(op *operation.Operation) { op.Failure.Cause = operation.CauseDeadline })
	wantExecutes(t, f.plan(), "DELETE db-3")
	f.leavingOp(3)
	if facts := f.facts(f.rec.Operations[len(f.rec.Operations)-1]); !facts.Safe {
		t.Errorf("the second look: %s", facts.SafeReason)
	}
}

// TestR47_TwoThatAreNotListedDoNotWaitForEachOther: two existing members are not in the set. The set lists the first
// without waiting for the second's first report.
func TestR47_TwoThatAreNotListedDoNotWaitForEachOther(t *testing.T) {
	f := newFixture(5, "etcd")
	f.joiner(3)
	f.joiner(4)
	if got := changeOf(f.plan()); got != "db-0: add db-3" {
		t.Errorf("both are up: %q", got)
	}
	f.obs.Slots[0].Report.Learners = []string{"db-3"}
	if got := changeOf(f.plan()); got != "" {
		t.Errorf("one has no vote yet: %q", got)
	}
	f.obs.Slots[0].Report.Learners = nil
	f.silent(3, f.now.Add(-time.Hour))
	if got := changeOf(f.plan()); got != "db-0: add db-4" {
		t.Errorf("the first one is silent: %q", got)
	}
}

// TestR104_ATerminatingNonVoterDoesNotWaitForANewcomer: a terminating member without a vote keeps out a made and
// unlisted member, so it goes first.
func TestR104_ATerminatingNonVoterDoesNotWaitForANewcomer(t *testing.T) {
	f := newFixture(5, "etcd")
	f.joiner(3)
	f.joiner(4)
	f.obs.Slots[0].Report.Learners, f.obs.Slots[4].Report.Liveness = []string{"db-4"}, LivenessAlive
	f.spec.Replicas = 4
	wantHeld(t, f.plan(), "db-4", HoldDeleteDisks)
	f.obs.DeleteDisks = []string{"db-4"}
	wantExecutes(t, f.plan(), "DELETE db-4")
	f.leavingOp(4)
	if got, facts := changeOf(f.plan()), f.facts(f.rec.Operations[0]); got != "db-0: remove db-4" || !facts.Safe {
		t.Errorf("it leaves: %q, %s", got, facts.SafeReason)
	}
	f.obs.Slots[0].Report.Learners = nil
	if got := changeOf(f.plan()); got != "db-0: add db-3" {
		t.Errorf("it is out: %q", got)
	}
}

// TestR109_ASlotIsToGoWithTheCVMThatIsItsOwn: no step is called off before a removal would find every CVM of the Slot.
func TestR109_ASlotIsToGoWithTheCVMThatIsItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fixture)
		want   bool
	}{
		"terminating":             {func(*fixture) {}, true},
		"wanted":                  {func(f *fixture) { f.spec.Replicas = 4 }, false},
		"its disk is kept":        {func(f *fixture) { f.obs.DeleteDisks = nil }, false},
		"its disk is preserved":   {func(f *fixture) { f.spec.PreservedState.Disk = "data" }, false},
		"protected":               {func(f *fixture) { f.obs.Slots[3].Protection = &Override{Reason: "x"} }, false},
		"all is frozen":           {func(f *fixture) { f.obs.Freeze = &Override{} }, false},
		"removals are paused":     {func(f *fixture) { f.obs.Pause = &Override{} }, false},
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
		f.spec.Replicas, f.obs.DeleteDisks = 3, []string{"db-3"}
		f.op(3, operation.Booting, func(op *operation.Operation) { op.Kind = operation.Create })
		c.change(f)
		goes := slices.ContainsFunc(f.plan().Actions, func(a Action) bool {
			return a.Slot == "db-3" && a.Kind == operation.Delete && a.Execute && a.Retarget != nil
		})
		if goes != c.want {
			t.Errorf("%s: %t, want %t\n%s", name, goes, c.want, describe(f.plan()))
		}
	}
}

// TestR115_R48_ReplacementsHaveAnOrder: a member that is out of the set waits for the member whose CVM is being made,
// and otherwise for the first member. A dead voter in the set waits for no member, because it keeps the others out.
func TestR115_R48_ReplacementsHaveAnOrder(t *testing.T) {
	out := func(f *fixture) { f.listed("db-0", "db-3", "db-4") }
	for name, c := range map[string]struct {
		kind    string
		calls   [2]int // of db-1 and db-2
		change  func(f *fixture)
		waiting [2]bool
	}{
		"both are out":                             {"etcd", [2]int{0, 0}, out, [2]bool{false, true}},
		"both are out, and the first is made":      {"etcd", [2]int{1, 0}, out, [2]bool{false, true}},
		"both are out, and the second is made":     {"etcd", [2]int{0, 1}, out, [2]bool{true, false}},
		"both are out, and calls of both are made": {"etcd", [2]int{1, 1}, out, [2]bool{false, true}},
		"the second is in it":                      {"etcd", [2]int{1, 0}, func(f *fixture) { f.listed("db-0", "db-2", "db-3", "db-4") }, [2]bool{false, false}},
		"both are in it":                           {"etcd", [2]int{0, 0}, func(*fixture) {}, [2]bool{false, false}},
		"both are in one that lets newcomers in":   {"consul", [2]int{0, 0}, func(*fixture) {}, [2]bool{false, true}},
	} {
		f := newFixture(5, c.kind).rolling()
		c.change(f)
		f.down(1, 2)
		for i, calls := range c.calls {
			f.op(1+i, operation.Drained, func(op *operation.Operation) { op.Kind, op.Call.Number = operation.Replace, calls })
		}
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		for i, slot := range []string{"db-1", "db-2"} {
			holds := w.holdsOfReplace(candidate{m: w.find(slot), kind: operation.Replace}, evaluation{taken: &taken{}, op: &f.rec.Operations[i]})
			if waits := len(holds) > 0 && holds[0].Predicate == HoldReplaceInProgress; waits != c.waiting[i] {
				t.Errorf("%s: %s waits %t (%v), want %t", name, slot, waits, holds, c.waiting[i])
			}
		}
		// At the preflight check no call was made: a dead voter that keeps others out begins at the same time as the
		// others.
		m := w.find("db-2")
		first := w.replacedBefore(candidate{m: m, kind: operation.Replace}, evaluation{taken: &taken{}}, []*member{w.find("db-1")})
		if begins := first == nil; begins != w.outFirst(m) {
			t.Errorf("%s: db-2 begins %t, out first %t", name, begins, w.outFirst(m))
		}
	}
}

// TestR48_NoMemberIsMadeWhileAVoterIsUnreachable: a set adds a member only while it reaches each of its voters. Until
// then no member is made for it.
func TestR48_NoMemberIsMadeWhileAVoterIsUnreachable(t *testing.T) {
	for kind, want := range map[string]string{"etcd": HoldSetChanging, "consul": ""} {
		for name, change := range map[string]func(f *fixture){
			"down":   func(f *fixture) { f.down(2) },
			"silent": func(f *fixture) { f.silent(2, f.now.Add(-10*time.Minute)) },
		} {
			f := newFixture(3, kind)
			f.spec.Replicas, f.spec.ManagementPolicy = 4, group.Parallel
			wantExecutes(t, f.plan(), "CREATE db-3")
			change(f)
			got := ""
			w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
			for _, l := range []evaluation{{taken: &taken{}}, {taken: &taken{}, op: &operation.Operation{}}} {
				if holds := w.holdsOfSet(candidate{m: w.find("db-3"), kind: operation.Create}, l); len(holds) > 0 {
					got = holds[0].Predicate
				}
			}
			if got != want {
				t.Errorf("%s of %s: held by %q, want %q", name, kind, got, want)
			}
		}
	}
}

// TestR21_R48_ALostVoterDoesNotWaitForNewcomers: a lost voter needs no budget in addition to the members that it keeps
// out of the set.
func TestR21_R48_ALostVoterDoesNotWaitForNewcomers(t *testing.T) {
	for name, c := range map[string]struct {
		kind   string
		change func(f *fixture)
		held   bool
	}{
		"the newcomer waits to be listed": {"etcd", func(*fixture) {}, false},
		"nothing of it is there": {"etcd", func(f *fixture) {
			f.obs.Slots[4] = SlotObservation{Slot: "db-4", Ordinal: 4}
		}, false},
		"it runs since a moment ago":   {"etcd", func(f *fixture) { f.obs.Slots[4].Admission.AdmittedAt = f.now.Add(-30 * time.Second) }, true},
		"it is listed":                 {"etcd", func(f *fixture) { f.obs.Slots[0].Report.Learners = []string{"db-4"} }, true},
		"it is silent":                 {"etcd", func(f *fixture) { f.obs.Slots[4].Report = nil }, true},
		"another voter is away, too":   {"etcd", func(f *fixture) { f.stopped(3) }, true},
		"it was silent for a while":    {"etcd", func(f *fixture) { f.silent(1, f.now.Add(-time.Minute)) }, true},
		"the others let in whoever is": {"consul", func(*fixture) {}, true},
	} {
		f := newFixture(5, c.kind)
		f.joiner(4)
		f.silent(1, f.now.Add(-10*time.Minute))
		f.asks("db-1", "q1")
		c.change(f)
		if p := f.plan(); actionOf(t, p, "db-1").HeldBy(HoldMaxUnavailable) != c.held {
			t.Errorf("%s: want held %t\n%s", name, c.held, describe(p))
		}
	}
}

// TestR47_ANewcomerOfThisPassCountsAsJoining: a newcomer of this pass already counts as joining. Otherwise a step that
// takes a voter away in the same pass would be called off at the precommit check.
func TestR47_ANewcomerOfThisPassCountsAsJoining(t *testing.T) {
	for name, c := range map[string]struct {
		kind   string
		change func(f *fixture)
		want   []string
	}{
		"an update":                       {"etcd", func(f *fixture) { f.want("B") }, []string{"CREATE db-5"}},
		"a restart":                       {"etcd", func(f *fixture) { f.asks("db-2", "q") }, []string{"CREATE db-5"}},
		"a replacement, which goes first": {"etcd", func(f *fixture) { f.asks("db-2", "q"); f.obs.Requests[0].Kind = RequestReplace }, []string{"REPLACE db-2"}},
		"a replacement after it": {"etcd", func(f *fixture) {
			f.spec.Replicas = 5
			f.listed("db-0", "db-2", "db-3", "db-4")
			f.missing(1).rec.Slots[1].Membership = &group.Membership{Joins: true}
			f.asks("db-2", "q")
			f.obs.Requests[0].Kind = RequestReplace
		}, []string{"CREATE db-1"}},
		"an update where servers join by themselves": {"consul", func(f *fixture) { f.want("B") }, []string{"CREATE db-5", "UPDATE db-4"}},
	} {
		f := newFixture(5, c.kind)
		f.spec.Replicas, f.spec.ManagementPolicy, f.spec.UpdatePolicy.MaxUnavailableFixed = 6, group.Parallel, intp(2)
		c.change(f)
		p := f.plan()
		if got := executes(p); !slices.Equal(got, c.want) {
			t.Errorf("%s: begins %v, want %v\n%s", name, got, c.want, describe(p))
		}
	}
}

// TestR109_RemovalsOfAGroupThatStaysGoInTurn: all removals began with the group's deletion, which was cancelled before
// one of them acted.
func TestR109_RemovalsOfAGroupThatStaysGoInTurn(t *testing.T) {
	f := newFixture(5, "etcd")
	f.spec.Replicas, f.obs.DeleteDisks = 2, []string{"db-2", "db-3", "db-4"}
	for _, i := range []int{4, 3, 2} {
		f.rolling().op(i, operation.Drained, func(op *operation.Operation) { op.Kind = operation.Delete })
	}
	goOn := func() (slots []string) {
		for _, op := range f.rec.Operations {
			if f.facts(op).Unwanted == "" {
				slots = append(slots, op.Slot)
			}
		}
		return slots
	}
	if got := strings.Join(goOn(), " "); got != "db-4" {
		t.Errorf("removed at once are %q", got)
	}
	f.obs.Deletion = &Deletion{}
	if got := strings.Join(goOn(), " "); got != "db-4 db-3 db-2" {
		t.Errorf("of a group that goes: %q", got)
	}
}
