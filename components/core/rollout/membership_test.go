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

// changeOf returns the ordered change of the set and its executing Slot; "": no change is ordered.
func changeOf(p Plan) string {
	out := ""
	for _, r := range p.Slots {
		if m := r.Membership; m != nil && m.Change != nil {
			out += fmt.Sprintf("%s: %s %s", r.Slot, m.Change.Do, m.Change.Slot)
			if m.Change.Member != "" {
				out += " as " + m.Change.Member
			}
		}
	}
	return out
}

func (f *fixture) down(slots ...int) {
	for _, i := range slots {
		r := f.obs.Slots[i].Report
		f.rec.Slots[i].DownSince = f.now.Add(-unwellFor)
		r.Liveness, r.MemberReady, r.Health, r.Role, r.QuorumMember, r.Voters = LivenessRefused, false, Unhealthy, RoleUnknown, false, nil
	}
}

// leavingOp is the removal of the last Slot, drained, with its leave recorded.
func (f *fixture) leavingOp(i int) {
	f.rolling().op(i, operation.Drained, func(op *operation.Operation) { op.Kind, op.Set.Leaves = operation.Delete, true })
}

// TestR46_OPS01_ADeadVoterLeavesOnlyWithAMajority: in each row of the table a dead voter is terminating, and some other
// voters may be dead too.
func TestR46_OPS01_ADeadVoterLeavesOnlyWithAMajority(t *testing.T) {
	for _, c := range []struct {
		voters, alsoDead int
		kind, want       string
	}{
		{3, 0, "etcd", ""}, {3, 1, "etcd", HoldQuorum}, {4, 0, "etcd", ""}, {4, 1, "etcd", HoldQuorum},
		{5, 1, "etcd", ""}, {5, 2, "etcd", HoldQuorum}, {7, 2, "etcd", ""}, {7, 3, "etcd", HoldQuorum}, {2, 0, "etcd", HoldQuorum},
		{5, 1, "consul", ""}, {5, 2, "consul", HoldQuorum}, {2, 0, "consul", HoldQuorum},
	} {
		f := newFixture(c.voters, c.kind)
		last := c.voters - 1
		f.spec.Replicas = last
		f.down(last)
		for i := range c.alsoDead {
			f.down(last - 1 - i)
		}
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		got := ""
		if holds := w.holdsOfLeaving(candidate{m: w.find(fmt.Sprintf("db-%d", last)), kind: operation.Delete}, evaluation{taken: &taken{}}); len(holds) > 0 {
			got = holds[0].Predicate
		}
		if got != c.want {
			t.Errorf("%d voters of %s, one and %d more dead: held by %q, want %q", c.voters, c.kind, c.alsoDead, got, c.want)
		}
	}
}

// TestR46_TheLastVoters: a healthy voter of two may leave, since its own vote counts for that. The last voter never
// leaves.
func TestR46_TheLastVoters(t *testing.T) {
	for _, c := range []struct {
		voters     int
		kind, want string
	}{{2, "etcd", ""}, {2, "consul", ""}, {1, "consul", HoldWouldLoseQuorum}, {1, "etcd", HoldWouldLoseQuorum}} {
		f := newFixture(c.voters, c.kind)
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		got := ""
		if holds := w.holdsOfLeaving(candidate{m: w.find(fmt.Sprintf("db-%d", c.voters-1)), kind: operation.Delete}, evaluation{taken: &taken{}}); len(holds) > 0 {
			got = holds[0].Predicate
		}
		if got != c.want {
			t.Errorf("%d voters of %s: held by %q, want %q", c.voters, c.kind, got, c.want)
		}
	}
}

// TestR46_AMemberWithoutAVoteMayGo: a member that is no voter may go, for any number of voters. The member may be the
// obstacle to the set's progress.
func TestR46_AMemberWithoutAVoteMayGo(t *testing.T) {
	for name, c := range map[string]struct {
		members int
		edit    func(f *fixture)
		slot    string
		want    string
	}{
		"beside the only voter":       {2, func(*fixture) {}, "db-1", ""},
		"beside two, and one is dead": {3, func(f *fixture) { f.down(1) }, "db-2", ""},
		"the only voter beside it":    {2, func(f *fixture) { f.obs.Slots[0].Report.Learners, f.rec.Slots[1].Membership = nil, nil }, "db-0", HoldWouldLoseQuorum},
		"another one without comes":   {3, func(f *fixture) { f.obs.Slots[0].Report.Learners = []string{"db-2", "db-9"} }, "db-2", HoldSetChanging},
	} {
		f := newFixture(c.members, "etcd")
		f.joiner(c.members - 1)
		f.obs.Slots[0].Report.Learners = []string{f.obs.Slots[c.members-1].Slot}
		c.edit(f)
		w := seenBy(f)
		m := w.find(c.slot)
		if !w.listed(m) {
			t.Fatalf("%s: %s is not in the set", name, c.slot)
		}
		holds := w.holdsOfLeaving(candidate{m: m, kind: operation.Replace}, evaluation{taken: &taken{}})
		if got := holdNames(Action{Holds: holds}); strings.Join(got, ", ") != c.want {
			t.Errorf("%s: held by %v, want %q", name, got, c.want)
		}
	}
}

// TestR46_AHealthyMemberDoesNotLeaveDuringADrain: a drained voter votes, and an operator may stop it at any moment. No
// healthy member leaves during the drain. A member outside the quorum does.
func TestR46_AHealthyMemberDoesNotLeaveDuringADrain(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture)
		want string
	}{
		"nobody is drained":      {func(*fixture) {}, ""},
		"another one is drained": {func(f *fixture) { f.rests(1) }, HoldQuorum},
		"it is drained itself":   {func(f *fixture) { f.rests(2) }, ""},
		"it is dead":             {func(f *fixture) { f.rests(1).down(2) }, ""},
	} {
		for _, kind := range []string{"consul", "etcd"} {
			f := newFixture(3, kind)
			f.spec.Replicas = 2
			c.edit(f)
			w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
			got := ""
			if holds := w.holdsOfLeaving(candidate{m: w.find("db-2"), kind: operation.Delete}, evaluation{taken: &taken{}}); len(holds) > 0 {
				got = holds[0].Predicate
			}
			if got != c.want {
				t.Errorf("%s, %s: held by %q, want %q", kind, name, got, c.want)
			}
		}
	}
}

// TestR46_AConsulServerLeavesItsSetAfterItsCVM: a Consul server is removed from the set after its CVM is gone, except
// for one of the last two.
func TestR46_AConsulServerLeavesItsSetAfterItsCVM(t *testing.T) {
	for _, c := range []struct {
		voters int
		kind   string
		want   bool
	}{{3, "etcd", true}, {2, "etcd", true}, {3, "consul", false}, {2, "consul", true}, {3, "patroni", false}, {2, "patroni", false}} {
		f := newFixture(c.voters, c.kind)
		f.leavingOp(c.voters - 1)
		if got := f.facts(f.rec.Operations[0]).LeavesAlive; got != c.want {
			t.Errorf("%d of %s: %t", c.voters, c.kind, got)
		}
	}
}

func TestR48_TheLeaderRemovesALeavingMember(t *testing.T) {
	f := newFixture(4, "etcd")
	f.spec.Replicas, f.obs.DeleteDisks = 3, []string{"db-3"}
	wantExecutes(t, f.plan(), "DELETE db-3")
	f.leavingOp(3)
	if got := changeOf(f.plan()); got != "db-0: remove db-3" {
		t.Errorf("%q", got)
	}
	op := f.rec.Operations[0]
	if facts := f.facts(op); facts.Set != operation.SetListed || !facts.LeavesAlive {
		t.Errorf("the set says %q, leaves alive %t", facts.Set, facts.LeavesAlive)
	}
	for i := range 4 {
		f.obs.Slots[i].Report.Voters = []string{"db-0", "db-1", "db-2"}
	}
	f.obs.Slots[3].Report.QuorumMember = false
	if got := changeOf(f.plan()); got != "" {
		t.Errorf("it is out, and still %q", got)
	}
	if facts := f.facts(op); facts.Set != operation.SetAbsent || !facts.Safe {
		t.Errorf("it is out: the set says %q, safe %t: %s", facts.Set, facts.Safe, facts.SafeReason)
	}
}

// TestR48_NoMemberChangesTheSetWhileThatIsUnsafe: no change of the set happens while a change is unsafe, for any
// leaving member.
func TestR48_NoMemberChangesTheSetWhileThatIsUnsafe(t *testing.T) {
	for name, prepare := range map[string]func(f *fixture){
		"R43: the members do not agree": func(f *fixture) { f.obs.Slots[1].Report.Voters = []string{"db-0", "db-1"} },
		"R51: the majority is lost":     func(f *fixture) { f.down(1, 2, 3) },
		"R46: too few are left":         func(f *fixture) { f.down(1, 2) },
		"the leader is unknown":         func(f *fixture) { f.obs.Slots[0].Report.Role = RoleFollower },
		"it leads itself":               func(f *fixture) { f.lead(3) },
		"the platform is silent":        func(f *fixture) { f.blind("the platform") },
		"R47: another one joins":        func(f *fixture) { f.obs.Slots[0].Report.Learners = []string{"db-9"} },
		"the whole group goes":          func(f *fixture) { f.obs.Deletion = &Deletion{} },
		"leadership is handed over": func(f *fixture) {
			f.op(1, operation.Draining, func(op *operation.Operation) { op.Transfer = &operation.Transfer{ExpectedLeader: "db-1"} })
		},
	} {
		f := newFixture(4, "etcd")
		f.spec.Replicas = 3
		f.leavingOp(3)
		prepare(f)
		if got := changeOf(f.plan()); got != "" {
			t.Errorf("%s, and %q", name, got)
		}
	}
}

// joiner makes the last Slot a member that joins the others' set.
func (f *fixture) joiner(i int, set ...string) {
	f.rec.Slots[i].Membership = &group.Membership{Joins: true, Set: set}
	f.down(i)
	for n := range f.obs.Slots {
		if r := f.obs.Slots[n].Report; n != i {
			r.Voters = slices.DeleteFunc(slices.Clone(r.Voters), func(slot string) bool { return slot == f.obs.Slots[i].Slot })
		}
	}
}

func TestR49_AJoinerIsListedAndThenGivenItsVote(t *testing.T) {
	f := newFixture(4, "etcd")
	f.joiner(3)
	p := f.plan()
	if got := changeOf(p); got != "db-0: add db-3" {
		t.Fatalf("not listed yet: %q", got)
	}
	if m := p.Slots[3].Membership; !m.Waits() {
		t.Errorf("nobody lists it, and it may start: %+v", m)
	}
	f.obs.Slots[0].Report.Learners = []string{"db-3"}
	p = f.plan()
	if got, m := changeOf(p), p.Slots[3].Membership; got != "" || !slices.Equal(m.Set, []string{"db-0", "db-1", "db-2", "db-3"}) {
		t.Fatalf("listed and not up: %q, set %v", got, m.Set)
	}
	r := f.obs.Slots[3].Report
	r.Liveness, r.Role = LivenessAlive, RoleLearner
	if got := changeOf(f.plan()); got != "db-0: promote db-3" {
		t.Errorf("listed and up: %q", got)
	}
	f.down(2)
	if got := changeOf(f.plan()); got != "" {
		t.Errorf("with its vote three are needed and two are well: %q", got)
	}
	f = newFixture(4, "etcd")
	f.rec.Slots[3].Membership = &group.Membership{Joins: true, Set: []string{"db-3"}}
	if m := f.plan().Slots[3].Membership; m != nil {
		t.Errorf("it votes and serves, and still joins: %+v", m)
	}
}

// TestR47_OneNewcomerAtATime: a newcomer is made only if its set is known and no other member is joining.
func TestR47_OneNewcomerAtATime(t *testing.T) {
	grow := func() *fixture {
		f := newFixture(3, "etcd")
		f.spec.Replicas, f.spec.ManagementPolicy = 5, group.Parallel
		return f
	}
	p := grow().plan()
	wantExecutes(t, p, "CREATE db-3")
	if a := p.Actions[0]; !a.Set.Joins {
		t.Errorf("it does not join: %+v", a)
	}
	f := grow()
	f.obs.Slots[0].Report.Learners = []string{"db-9"}
	wantHeld(t, f.plan(), "db-3", HoldSetChanging)
	f = grow()
	f.obs.Slots[1].Report.Voters = []string{"db-0", "db-1"}
	wantHeld(t, f.plan(), "db-3", HoldQuorumUnknown)
}

// TestR49_FoundersDoNotJoin: members that bootstrap the set together do not wait to be admitted into it.
func TestR49_FoundersDoNotJoin(t *testing.T) {
	f := newFixture(3, "etcd")
	f.spec.ManagementPolicy = group.Parallel
	f.rec.Slots, f.obs.Slots, f.rec.Rollout = nil, nil, nil
	f.rec.Status = group.Status{Group: "db"}
	p := f.plan()
	for _, a := range p.Actions {
		if a.Set.Joins {
			t.Errorf("%s is to join a set that is not there", a.Slot)
		}
	}
	if len(p.Actions) != 3 {
		t.Errorf("%d actions", len(p.Actions))
	}
	// The first two members are up and list the third, whose creation failed.
	f = newFixture(3, "etcd")
	f.rec.Slots[2] = group.SlotRecord{Group: "db", Slot: "db-2", Ordinal: 2}
	f.obs.Slots[2] = SlotObservation{Slot: "db-2", Ordinal: 2}
	for _, a := range f.plan().Actions {
		if a.Slot == "db-2" && a.Set.Joins {
			t.Error("the set was founded with db-2")
		}
	}
}

// TestR49_AFounderThatWasTakenOutJoins: two founders were never made. One founder was removed from the set since, and
// joins it when it is wanted again. The other founder is still listed, and bootstraps with the list.
func TestR49_AFounderThatWasTakenOutJoins(t *testing.T) {
	f := newFixture(5, "etcd")
	all := []string{"db-0", "db-1", "db-2", "db-3", "db-4"}
	for _, i := range []int{3, 4} {
		slot := all[i]
		f.rec.Slots[i] = group.SlotRecord{Group: "db", Slot: slot, Ordinal: i, Membership: &group.Membership{Founders: all}}
		f.obs.Slots[i] = SlotObservation{Slot: slot, Ordinal: i}
	}
	f.rec.Slots[3].Membership = &group.Membership{Joins: true}
	for i := range 3 {
		f.obs.Slots[i].Report.Voters = []string{"db-0", "db-1", "db-2", "db-4"}
	}
	p := f.plan()
	if got := p.Slots[3].Membership; got == nil || !got.Joins || len(got.Founders) > 0 {
		t.Errorf("db-3: %+v", got)
	}
	if got := p.Slots[4].Membership; got == nil || got.Joins || !slices.Equal(got.Founders, all) {
		t.Errorf("db-4: %+v", got)
	}
}

// TestR49_ALearnerThatWasNeverMadeLeaves: a newcomer was listed for a creation that failed. It is removed from the
// set, or the next newcomer would wait without end. A founder may be listed with its vote before it is made.
func TestR49_ALearnerThatWasNeverMadeLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture)
		want string
	}{
		"it was listed as a learner": {func(f *fixture) { f.obs.Slots[0].Report.Learners = []string{"db-3"} }, "db-0: remove db-3"},
		"it has its vote": {func(f *fixture) {
			for i := range 3 {
				f.obs.Slots[i].Report.Voters = append(f.obs.Slots[i].Report.Voters, "db-3")
			}
		}, ""},
		"it is being made": {func(f *fixture) {
			f.obs.Slots[0].Report.Learners = []string{"db-3"}
			f.op(3, operation.Acting, func(op *operation.Operation) { op.Kind, op.Set.Joins = operation.Create, true })
		}, ""},
		"nobody can tell": {func(f *fixture) {
			f.obs.Slots[0].Report.Learners = []string{"db-3"}
			f.blind("503")
		}, ""},
	} {
		f := newFixture(4, "etcd")
		f.rec.Slots[3] = group.SlotRecord{Group: "db", Slot: "db-3", Ordinal: 3}
		f.obs.Slots[3] = SlotObservation{Slot: "db-3", Ordinal: 3}
		for i := range 3 {
			f.obs.Slots[i].Report.Voters = []string{"db-0", "db-1", "db-2"}
		}
		c.edit(f)
		if got := changeOf(f.plan()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestR46_AListedMemberIsNotForgotten: the record of a gone member stays while the set lists the member or the set is
// unknown.
func TestR46_AListedMemberIsNotForgotten(t *testing.T) {
	f := newFixture(4, "consul")
	f.spec.Replicas = 3
	f.obs.Slots[3] = SlotObservation{Slot: "db-3", Ordinal: 3}
	if p := f.plan(); len(p.Forget) != 0 || changeOf(p) != "" {
		t.Errorf("one listing lacks it: forgets %v, %q", p.Forget, changeOf(p))
	}
	f.rec.Slots[3].MissedSince = f.now.Add(-goneFor)
	if p := f.plan(); len(p.Forget) != 0 || changeOf(p) != "" {
		t.Errorf("its disk was not given up, and its CVM may show again: forgets %v, %q", p.Forget, changeOf(p))
	}
	f.obs.DeleteDisks = []string{"db-3"}
	p := f.plan()
	if len(p.Forget) != 0 || changeOf(p) != "db-0: remove db-3" {
		t.Errorf("forgets %v, %q", p.Forget, changeOf(p))
	}
	f.obs.Slots[1].Report.Voters = []string{"db-0"}
	if p = f.plan(); len(p.Forget) != 0 {
		t.Errorf("forgets %v while nobody knows", p.Forget)
	}
	for i := range 3 {
		f.obs.Slots[i].Report.Voters = []string{"db-0", "db-1", "db-2"}
	}
	if p = f.plan(); !slices.Equal(p.Forget, []string{"db-3"}) || changeOf(p) != "" {
		t.Errorf("forgets %v, %q", p.Forget, changeOf(p))
	}
}

// TestR48_AChangeNamesAnIncarnation: a change names the incarnation in the leader's list, or the incarnation that its
// step recorded.
func TestR48_AChangeNamesAnIncarnation(t *testing.T) {
	f := newFixture(4, "etcd")
	f.spec.Replicas = 3
	f.leavingOp(3)
	lead := f.obs.Slots[0].Report
	lead.MemberIDs = map[string]string{"db-3": "b2"}
	if got := changeOf(f.plan()); got != "db-0: remove db-3 as b2" {
		t.Errorf("the step recorded none: %q", got)
	}
	if facts := f.facts(f.rec.Operations[0]); facts.Member != "b2" {
		t.Errorf("the step hears of %q", facts.Member)
	}
	f.rec.Operations[0].Set.LeavesAs = "a1"
	if got := changeOf(f.plan()); got != "db-0: remove db-3 as a1" {
		t.Errorf("the step recorded another one: %q", got)
	}
	// The set lost the name, but still has the incarnation.
	for i := range 4 {
		f.obs.Slots[i].Report.Voters = []string{"a1", "db-0", "db-1", "db-2"}
	}
	lead.MemberIDs = map[string]string{"a1": "a1"}
	if got, facts := changeOf(f.plan()), f.facts(f.rec.Operations[0]); got != "db-0: remove db-3 as a1" || facts.Set != operation.SetListed {
		t.Errorf("it is listed without a name: %q, the set says %q", got, facts.Set)
	}

	f = newFixture(4, "etcd")
	f.joiner(3)
	f.obs.Slots[0].Report.Learners, f.obs.Slots[0].Report.MemberIDs = []string{"db-3"}, map[string]string{"db-3": "c3"}
	f.obs.Slots[3].Report.Liveness = LivenessAlive
	if got := changeOf(f.plan()); got != "db-0: promote db-3 as c3" {
		t.Errorf("listed and up: %q", got)
	}
}

// TestR48_AnUnnamedLearnerLeaves: a learner that has not started is listed under its address. The listing has the
// address if the leader lost the learner's Slot, for example after its Boot was revoked. The removal of its Slot
// removes the learner anyway.
func TestR48_AnUnnamedLearnerLeaves(t *testing.T) {
	f := newFixture(4, "etcd")
	f.joiner(3)
	f.spec.Replicas, f.obs.DeleteDisks = 3, []string{"db-3"}
	lead := f.obs.Slots[0].Report
	lead.Learners, lead.MemberIDs = []string{"127.50.1.4"}, map[string]string{"db-0": "a0", "127.50.1.4": "c3"}
	wantExecutes(t, f.plan(), "DELETE db-3")
	f.leavingOp(3)
	if got := changeOf(f.plan()); got != "db-0: remove db-3 as c3" {
		t.Errorf("its step leaves: %q", got)
	}
	if facts := f.facts(f.rec.Operations[0]); facts.Set != operation.SetListed || facts.Member != "c3" {
		t.Errorf("the set says %q, and knows it by %q", facts.Set, facts.Member)
	}
	if lead.Learners[0] != "127.50.1.4" || lead.MemberIDs["127.50.1.4"] != "c3" {
		t.Errorf("the report was changed: %v, %v", lead.Learners, lead.MemberIDs)
	}
	// The learner's CVM vanished: the Slot gets a new CVM once the old place is given up.
	f = newFixture(4, "etcd")
	f.joiner(3)
	f.obs.Slots[0].Report.Learners, f.obs.Slots[0].Report.MemberIDs = lead.Learners, lead.MemberIDs
	f.rec.Slots[3] = f.rec.Slots[3].Unbound("vanished", f.now)
	f.obs.Slots[3].Instance, f.obs.Slots[3].Report = nil, nil
	p := f.plan()
	wantHeld(t, p, "db-3", HoldSetChanging)
	if got := changeOf(p); got != "db-0: remove db-3 as c3" {
		t.Errorf("its CVM is gone: %q", got)
	}
	// A name that is not a Slot's address stays unchanged.
	f.obs.Slots[0].Report.Learners = []string{"c3"}
	if got := changeOf(f.plan()); got != "" {
		t.Errorf("an id that nobody has: %q", got)
	}
}

// out takes ordinal i out of the set: its process ended after the removal.
func (f *fixture) out(i int) *fixture {
	f.down(i)
	f.rec.Slots[i].AvailableSince, f.rec.Slots[i].UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
	for j := range f.obs.Slots {
		if r := f.obs.Slots[j].Report; j != i && r != nil {
			r.Voters = slices.DeleteFunc(slices.Clone(r.Voters), func(v string) bool { return v == f.obs.Slots[i].Slot })
		}
	}
	return f
}

// TestR49_ARemovedMemberTakesNothingMoreAway: after a member left its set, its CVM serves no client. Another member
// that went down since, or a Slot that is wanted again, is no reason to leave the step half done.
func TestR49_ARemovedMemberTakesNothingMoreAway(t *testing.T) {
	for name, c := range map[string]struct {
		kind operation.Kind
		edit func(f *fixture)
		safe bool
	}{
		"a replacement":                       {operation.Replace, func(*fixture) {}, true},
		"a removal":                           {operation.Delete, func(f *fixture) { f.spec.Replicas, f.obs.DeleteDisks = 4, []string{"db-4"} }, true},
		"a removal, and it is wanted again":   {operation.Delete, func(*fixture) {}, true},
		"a removal whose disk is preserved":   {operation.Delete, func(f *fixture) { f.spec.PreservedState.Disk = "data" }, false},
		"a replacement, and it is still in":   {operation.Replace, func(f *fixture) { f.votes() }, false},
		"a replacement that nobody asked out": {operation.Replace, func(f *fixture) { f.rec.Operations[0].Set.Leaves = false }, false},
		"nobody tells who belongs to the set": {operation.Replace, func(f *fixture) { f.obs.Slots[0].Report.Role = RoleFollower }, false},
	} {
		f := newFixture(5, "etcd").out(4)
		f.down(3)
		f.op(4, operation.Drained, func(op *operation.Operation) { op.Kind, op.Set.Leaves, op.Request.ID = c.kind, true, "q" })
		c.edit(f)
		if facts := f.facts(f.rec.Operations[0]); facts.Safe != c.safe {
			t.Errorf("%s: safe %t: %s", name, facts.Safe, facts.SafeReason)
		}
	}
}

// TestR49_R117_RemovedAndDownMembersDoNotBlockEachOther: a member that healing removed from the set, and a member that
// went down since, do not wait for each other. The platform may refuse to delete the first member's CVM for days.
func TestR49_R117_RemovedAndDownMembersDoNotBlockEachOther(t *testing.T) {
	beside := func(edit func(f *fixture)) *fixture {
		f := heals(5, "etcd").out(4)
		f.spec.AutoHealing.Replace = group.ReplaceAuto
		f.obs.Slots[4].Instance.Status, f.obs.Slots[4].Report = "stopped", nil
		f.rec.Slots[4].Heals = &group.Heals{Attempts: 5, FailedDown: 5, Replacements: 1}
		f.op(4, operation.Acting, func(op *operation.Operation) {
			op.Kind, op.Actor, op.Rollout, op.Set.Leaves, op.Before.Unavailable = operation.Replace, operation.ActorHealing, "", true, true
			op.Call.Number, op.Call.Outcome, op.Call.IssuedAt = 3, operation.OutcomeRefused, f.now.Add(-time.Hour)
		})
		edit(f)
		return f
	}
	for name, edit := range map[string]func(f *fixture){
		"another process is down": func(f *fixture) { f.down(3); f.rec.Slots[3].DownSince = f.now.Add(-time.Hour) },
		"another one is silent":   func(f *fixture) { f.silent(3, f.now.Add(-time.Minute)) },
	} {
		f := beside(edit)
		if facts := f.facts(f.rec.Operations[0]); !facts.Safe {
			t.Errorf("%s: %s", name, facts.SafeReason)
		}
		f.votes()
		if facts := f.facts(f.rec.Operations[0]); facts.Safe {
			t.Errorf("%s: its disk goes though it is in its set", name)
		}
	}
	f := beside(func(f *fixture) {
		f.down(3)
		f.rec.Slots[3].DownSince = f.now.Add(-time.Hour)
		f.rec.Slots[3].AvailableSince, f.rec.Slots[3].UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
	})
	wantExecutes(t, f.plan(), "RESTART db-3")
	f.votes()
	wantHeld(t, f.plan(), "db-3", HoldHealInProgress)
}

// TestR138_AReplacementThatWaitsIsTakenBack: a waiting replacement goes before the restart of its Slot, in the order
// of the requests. The replacement's caller sees how to withdraw it.
func TestR138_AReplacementThatWaitsIsTakenBack(t *testing.T) {
	f := heals(3, "etcd")
	f.down(1, 2)
	for _, i := range []int{1, 2} {
		slot := f.obs.Slots[i].Slot
		f.rec.Slots[i].AvailableSince, f.rec.Slots[i].UnavailableSince, f.rec.Slots[i].DownSince = time.Time{}, f.now.Add(-time.Hour), f.now.Add(-time.Hour)
		f.asks(slot, "q-"+slot).asks(slot, "r-"+slot)
		f.obs.Requests[len(f.obs.Requests)-2].Kind = RequestReplace
	}
	p := f.plan()
	wantExecutes(t, p)
	for _, slot := range []string{"db-1", "db-2"} {
		a := actionOf(t, p, slot)
		if want := "cadre operation cancel q-" + slot; a.Kind != operation.Replace || !strings.HasSuffix(a.Holds[0].Message, want) {
			t.Errorf("%s of %s is told %v", a.Kind, slot, a.Holds)
		}
	}
	for i := range f.obs.Requests {
		f.obs.Requests[i].Spent = f.obs.Requests[i].Kind == RequestReplace
	}
	wantExecutes(t, f.plan(), "RESTART db-2")
}

// votes puts all members back into the set.
func (f *fixture) votes() {
	for i := range f.obs.Slots {
		if r := f.obs.Slots[i].Report; r != nil && r.Voters != nil {
			r.Voters = f.spec.Members()
		}
	}
}

// TestR49_AMemberOutOfItsSetWaitsForAnOperator: a member that the others removed, for any reason, does not return by a
// restart or an update. An operator decides its replacement, even where healing may replace lost members.
func TestR49_AMemberOutOfItsSetWaitsForAnOperator(t *testing.T) {
	outOf := func(kind string, edit func(f *fixture)) *fixture {
		f := heals(3, kind)
		f.spec.AutoHealing.Replace = group.ReplaceAuto
		f.out(2)
		f.rec.Slots[2].DownSince = f.now.Add(-time.Hour)
		edit(f)
		return f
	}
	for name, edit := range map[string]func(f *fixture){
		"with healing":    func(*fixture) {},
		"without":         func(f *fixture) { f.spec.AutoHealing = nil },
		"outdated":        func(f *fixture) { f.want("B").rolling() },
		"silent meantime": func(f *fixture) { f.silent(2, f.now.Add(-time.Hour)) },
	} {
		p := outOf("etcd", edit).plan()
		a := actionOf(t, p, "db-2")
		if a.Kind != operation.Replace || !strings.Contains(a.Holds[0].Message, "cadre instance replace db-2") || p.Status.Instances[2].State != "OutOfSet" {
			t.Errorf("%s: %s", name, describe(p))
		}
		wantHeld(t, p, "db-2", HoldNotAMember)
	}
	for name, c := range map[string]struct {
		f    *fixture
		want string
	}{
		"a person asks for it": {outOf("etcd", func(f *fixture) {
			f.asks("db-2", "q")
			f.obs.Requests[0].Kind = RequestReplace
		}), "REPLACE db-2"},
		"it waits to be listed": {outOf("etcd", func(f *fixture) { f.rec.Slots[2].Membership = &group.Membership{Joins: true} }), ""},
		"it joins":              {outOf("etcd", func(f *fixture) { f.rec.Slots[2].Membership = &group.Membership{Joins: true, Set: []string{"db-0"}} }), "RESTART db-2"},
		"it was never in":       {outOf("etcd", func(f *fixture) { f.rec.Slots[2].WasAvailableAt = "" }), ""},
		"the set is open":       {outOf("consul", func(*fixture) {}), "RESTART db-2"},
		"a person restarts it":  {outOf("etcd", func(f *fixture) { f.asks("db-2", "q") }), "RESTART db-2"},
		"it is in it, and down": {outOf("etcd", func(f *fixture) { f.votes() }), "RESTART db-2"},
	} {
		if got := strings.Join(executes(c.f.plan()), ", "); got != c.want {
			t.Errorf("%s: begins %q, want %q\n%s", name, got, c.want, describe(c.f.plan()))
		}
	}
}

// TestR49_AWaitingLeaveKeepsNoMemberDown: all members are down while a leaving member waits to know the set. The
// restart of another member does not wait for the leaving member's step, which waits for that restart. A refused call
// that is repeated is not undecided.
func TestR49_AWaitingLeaveKeepsNoMemberDown(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		f := newFixture(3, "etcd").out(2)
		f.down(0, 1)
		f.op(2, operation.Drained, func(op *operation.Operation) {
			op.Kind, op.Set.Leaves, op.Before.Unavailable = operation.Replace, leaves, true
		})
		f.asks("db-1", "q")
		if p := f.plan(); slices.Contains(executes(p), "RESTART db-1") != leaves {
			t.Errorf("told to leave %t: %s", leaves, describe(p))
		}
	}
	f := newFixture(5, "etcd").out(4)
	f.op(4, operation.Acting, func(op *operation.Operation) {
		op.Kind, op.Set.Leaves, op.Call.Number, op.Call.Outcome, op.Call.IssuedAt = operation.Replace, true, 1, operation.OutcomeRefused, epoch
	})
	wantNotHeld(t, f.asks("db-1", "q").plan(), "db-1", HoldCallUndecided)
}

// TestR48_ARefusedMemberKeepsNoOtherMemberOut: of two members that are out of the set, each member goes on after the
// other member. The exception is a member whose call the platform refused, because its step may stay refused.
func TestR48_ARefusedMemberKeepsNoOtherMemberOut(t *testing.T) {
	for outcome, safe := range map[operation.Outcome]bool{operation.OutcomeRefused: true, operation.OutcomeDone: false} {
		f := newFixture(5, "etcd").out(3).out(4)
		for _, i := range []int{3, 4} {
			f.op(i, operation.Drained, func(op *operation.Operation) {
				op.Kind, op.Set.Leaves, op.Request.ID = operation.Replace, true, f.obs.Slots[i].Slot
			})
		}
		f.rec.Operations[0].Call.Number, f.rec.Operations[0].Call.Outcome = 1, outcome
		if facts := f.facts(f.rec.Operations[1]); facts.Safe != safe {
			t.Errorf("beside one whose call was %s: safe %t: %s", outcome, facts.Safe, facts.SafeReason)
		}
	}
}

// TestR49_AMemberWithItsVoteIsNotPromotedAgain while it is not ready yet.
func TestR49_AMemberWithItsVoteIsNotPromotedAgain(t *testing.T) {
	f := newFixture(4, "etcd")
	f.joiner(3, "db-0", "db-1", "db-2", "db-3")
	f.obs.Slots[0].Report.Learners = []string{"db-3"}
	f.obs.Slots[3].Report.Liveness = LivenessAlive
	if got := changeOf(f.plan()); got != "db-0: promote db-3" {
		t.Errorf("change %q, want its promotion", got)
	}
	f.obs.Slots[0].Report.Learners = nil
	f.votes()
	if got := changeOf(f.plan()); got != "" {
		t.Errorf("change %q, and it votes already", got)
	}
}

// TestR49_ALeaderThatJoinedKeepsItsPartWhileItChangesTheSet: an agent that restarts under a leader which is not ready
// yet must not found a set of its own.
func TestR49_ALeaderThatJoinedKeepsItsPartWhileItChangesTheSet(t *testing.T) {
	f := newFixture(4, "etcd").failing(0, "ready")
	f.joiner(3)
	given := &group.Membership{Joins: true, Set: []string{"db-0", "db-1", "db-2"}}
	f.rec.Slots[0].Membership = given
	p := f.plan()
	if got := changeOf(p); got != "db-0: add db-3" {
		t.Fatalf("change %q, want the addition", got)
	}
	if m := p.Slots[0].Membership; !m.Joins || len(m.Set) != 3 || given.Change != nil {
		t.Errorf("its part is %+v, and the record that was read is %+v", m, given)
	}
}
