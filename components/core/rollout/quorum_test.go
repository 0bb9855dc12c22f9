package rollout

import (
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

func TestR17_VotersGoOneAtATime(t *testing.T) {
	f := newFixture(7, "etcd").want("B")
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(3)
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-6")
	wantHeld(t, p, "db-5", HoldVoterCap)
	f.spec.UpdatePolicy.ParallelVoters = true
	wantExecutes(t, f.plan(), "UPDATE db-6", "UPDATE db-5", "UPDATE db-4")
}

func TestR17_MembersThatReplicateWithoutVotingToo(t *testing.T) {
	f := newFixture(5, "patroni").want("B")
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(3)
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-4")
	wantHeld(t, p, "db-3", HoldVoterCap)
}

func TestR17_LearnersHaveNoCap(t *testing.T) {
	f := newFixture(9, "none").want("B")
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(3)
	wantExecutes(t, f.plan(), "UPDATE db-8", "UPDATE db-7", "UPDATE db-6")
}

func TestR18_SizeOneIsInterruptedUnlessRefused(t *testing.T) {
	for _, kind := range []string{"none", "consul", "patroni"} {
		f := newFixture(1, kind).want("B")
		p := f.plan()
		wantExecutes(t, p, "UPDATE db-0")
		if len(p.Warnings) != 1 {
			t.Errorf("%s: warnings %v", kind, p.Warnings)
		}
		f.spec.UpdatePolicy.Interruption = group.InterruptionRefuse
		p = f.plan()
		wantExecutes(t, p)
		wantHeld(t, p, "db-0", HoldInterruption)
	}
}

func TestR19_TwoVotersNeedPermission(t *testing.T) {
	f := newFixture(2, "consul").want("B")
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-1", HoldWouldLoseQuorum)
	f.spec.UpdatePolicy.Interruption = group.InterruptionAllow
	wantExecutes(t, f.plan(), "UPDATE db-1")
}

func TestR43_VotersComeFromTheMembers(t *testing.T) {
	f := newFixture(5, "consul").want("B")
	f.obs.Slots[1].Report.Voters = []string{"db-0", "db-1", "db-2"}
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-4", HoldQuorumUnknown)
}

func TestR43_TheOrderOfTheListMeansNothing(t *testing.T) {
	f := newFixture(3, "consul").want("B")
	f.obs.Slots[1].Report.Voters = []string{"db-2", "db-0", "db-1"}
	wantExecutes(t, f.plan(), "UPDATE db-2")
}

func TestR43_NoReportNamesTheVoters(t *testing.T) {
	f := newFixture(3, "consul").want("B")
	for i := range f.obs.Slots {
		f.obs.Slots[i].Report.Voters, f.obs.Slots[i].Report.QuorumMember = nil, false
	}
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-2", HoldQuorumUnknown)
}

func TestR44_RestartRule(t *testing.T) {
	for _, c := range []struct {
		size, sick int
		want       bool
	}{{3, 0, true}, {3, 1, false}, {5, 1, true}, {5, 2, false}, {4, 0, true}, {4, 1, false}, {7, 3, false}, {7, 2, true}} {
		f := newFixture(c.size, "consul").want("B").rolling()
		f.spec.UpdatePolicy.MaxUnavailableFixed = intp(c.size) // quorum alone decides
		for i := range c.sick {
			f.at(i+1, "B").sick(i + 1) // these members need no update
		}
		p := f.plan()
		a := actionOf(t, p, f.obs.Slots[c.size-1].Slot)
		if a.Execute != c.want {
			t.Errorf("%d voters, %d sick: execute %t, want %t, held by %v", c.size, c.sick, a.Execute, c.want, a.Holds)
		}
		if !c.want && !a.HeldBy(HoldQuorum) {
			t.Errorf("%d voters, %d sick: held by %v", c.size, c.sick, holdNames(a))
		}
		if a.Before.Quorum == "" {
			t.Errorf("%d voters: the arithmetic is not told", c.size)
		}
	}
}

func TestR44_AVoterThatIsBehindOrOnAnotherTermIsNotInH(t *testing.T) {
	for name, edit := range map[string]func(*Report){
		"behind":     func(r *Report) { no := false; r.CaughtUp = &no },
		"other term": func(r *Report) { r.Epoch, r.MemberReady = 4, false },
		"not ready":  func(r *Report) { r.MemberReady = false },
	} {
		f := newFixture(3, "consul").want("B").rolling().at(1, "B")
		f.spec.UpdatePolicy.MaxUnavailableFixed = intp(3)
		edit(f.obs.Slots[1].Report)
		if a := actionOf(t, f.plan(), "db-2"); !a.HeldBy(HoldQuorum) {
			t.Errorf("%s: held by %v", name, holdNames(a))
		}
	}
}

func TestR44_AWrongHealthCheckDoesNotTalkQuorumAway(t *testing.T) {
	f := newFixture(3, "consul").want("B")
	for i := range f.obs.Slots { // voting, but the check of the application fails
		f.obs.Slots[i].Report.Health = Unhealthy
	}
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-2")
	if a := actionOf(t, p, "db-2"); a.Way.SkipDrain {
		t.Error("a member that votes is not drained")
	}
	wantHeld(t, p, "db-1", HoldVoterCap)
	f.at(1, "B").sick(1) // one voter is certainly gone: no further voter may go
	wantHeld(t, f.plan(), "db-2", HoldQuorum)
}

func TestR44_AMemberTakenInThisPassIsNotCounted(t *testing.T) {
	f := newFixture(4, "consul").want("B")
	f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.ParallelVoters = intp(4), true
	wantExecutes(t, f.plan(), "UPDATE db-3") // of four voters three must stay
}

func TestR45_BelowQuorumSickMembersAreFixedOneAtATime(t *testing.T) {
	f := newFixture(3, "consul").want("B").sick(1).sick(2)
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-2")
	wantHeld(t, p, "db-1", HoldVoterCap)
	if a := actionOf(t, p, "db-0"); a.Execute {
		t.Error("the last healthy voter is disrupted")
	}
}

func TestR45_TheMostAdvancedLogGoesFirstBelowQuorum(t *testing.T) {
	f := newFixture(3, "consul").want("B").sick(1).sick(2)
	f.obs.Slots[1].Report.Epoch = 5
	f.obs.Slots[2].Report.Epoch = 4
	wantExecutes(t, f.plan(), "UPDATE db-1")
}

func TestR45_ALaggingVoterMayBeTheVoteOfTheLeader(t *testing.T) {
	f := newFixture(3, "consul").want("B").rolling().at(1, "B").sick(1).lagging(2, 10)
	p := f.plan() // db-0 leads: at least one voter votes for it, and db-1 does not
	wantExecutes(t, p)
	wantHeld(t, p, "db-2", HoldQuorum)
	f = newFixture(3, "consul").want("B").rolling().at(1, "B").sick(1).silent(2, epoch)
	wantHeld(t, f.plan(), "db-2", HoldQuorum)
	f.obs.Slots[0].Report.Role = RoleFollower // without a leader no quorum exists
	wantExecutes(t, f.plan(), "UPDATE db-2")
}

func TestR52_TheWorkloadIsAskedAboutHealthyMembersOnly(t *testing.T) {
	for _, kind := range []string{"consul", "patroni"} {
		f := newFixture(3, kind).want("B")
		f.obs.Slots[2].Report.MayDisrupt, f.obs.Slots[2].Report.MayDisruptReason = false, "a backup runs"
		p := f.plan()
		wantHeld(t, p, "db-2", HoldMayDisrupt)
		wantExecutes(t, p, "UPDATE db-1")
		f.sick(2)
		wantNotHeld(t, f.plan(), "db-2", HoldMayDisrupt)
	}
}

func TestR52_CaughtUpUnknownIsNo(t *testing.T) {
	f := newFixture(3, "patroni").want("B").rolling().at(2, "B")
	f.obs.Slots[2].Report.CaughtUp = nil
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-1", HoldMaxUnavailable)
}

func TestR52_ABusyMemberIsLeftAlone(t *testing.T) {
	f := newFixture(3, "patroni").want("B")
	f.obs.Slots[2].Report.Busy = []string{"a base backup is taken"}
	p := f.plan()
	wantHeld(t, p, "db-2", HoldBusy)
	wantExecutes(t, p, "UPDATE db-1")
}

// allButTheLeader is a rollout in which only db-1, the leader, is left.
func allButTheLeader(kind string) *fixture {
	f := newFixture(4, kind).want("B").rolling().at(0, "B").at(2, "B").at(3, "B")
	f.lead(1)
	return f
}

func TestR53_TheLeaderGoesLastWithOneTransfer(t *testing.T) {
	for _, kind := range []string{"consul", "etcd", "patroni"} {
		p := allButTheLeader(kind).plan()
		wantExecutes(t, p, "UPDATE db-1")
		tr := actionOf(t, p, "db-1").Transfer
		if tr == nil || tr.ExpectedLeader != "db-1" || len(tr.Candidates) != 3 || tr.Candidates[0] != "db-0" {
			t.Errorf("%s: transfer %+v", kind, tr)
		}
	}
}

func TestR53_NotWhileAnotherVoterIsOutdated(t *testing.T) {
	f := allButTheLeader("consul").at(3, "A")
	f.obs.Slots[3].Report.MayDisrupt = false // the last follower cannot go either
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-1", HoldLeaderLast)
}

func TestR53_CandidatesAreUpdatedAvailableAndCaughtUpTheMostAdvancedFirst(t *testing.T) {
	f := newFixture(6, "patroni").want("B").rolling()
	for _, i := range []int{0, 2, 3, 4, 5} {
		f.at(i, "B")
	}
	f.lead(1)
	zero, ten, twenty := int64(0), int64(10), int64(20)
	f.obs.Slots[0].Report.LagBytes = &twenty
	f.obs.Slots[2].Report.LagBytes = &ten
	f.obs.Slots[3].Report.LagBytes = &zero
	f.obs.Slots[4].Report.Role = RoleLearner
	f.obs.Slots[5].Report.LagBytes = &zero
	tr := actionOf(t, f.plan(), "db-1").Transfer
	if tr == nil || len(tr.Candidates) != 4 || tr.Candidates[0] != "db-3" || tr.Candidates[1] != "db-5" || tr.Candidates[2] != "db-2" || tr.Candidates[3] != "db-0" {
		t.Errorf("transfer %+v", tr)
	}
}

func TestR53_AtMostOnePlannedTransfer(t *testing.T) {
	f := allButTheLeader("consul")
	f.op(1, operation.Aborted, func(op *operation.Operation) {
		op.Transfer = &operation.Transfer{ExpectedLeader: "db-1", Made: true, To: "db-0"}
		op.Failure.Cause, op.Times.Ended = operation.CausePaused, epoch
	})
	p := f.plan() // and leadership came back
	wantExecutes(t, p)
	wantHeld(t, p, "db-1", HoldTransferBudget)
	if p.Rollout.Transfers != 1 || p.Status.Transfers != 1 {
		t.Errorf("%d transfers", p.Rollout.Transfers)
	}
	f.lead(0) // leadership moved without the rollout: no transfer is needed (R58)
	p = f.plan()
	wantExecutes(t, p, "UPDATE db-1")
	if actionOf(t, p, "db-1").Transfer != nil {
		t.Error("a transfer is planned for a follower")
	}
}

func TestR54_WithoutACandidateTheLeaderWaits(t *testing.T) {
	f := allButTheLeader("patroni")
	for _, i := range []int{0, 2, 3} {
		f.lagging(i, 1)
	}
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-1", HoldNoCandidate)
}

// TestR18_ASoleLeaderAmongLearnersIsInterruptedUnlessThatIsRefused: learners and replicas without failover cannot take
// over. The leader is interrupted like the only member of a group, after all other members.
func TestR18_ASoleLeaderAmongLearnersIsInterruptedUnlessThatIsRefused(t *testing.T) {
	for _, kind := range []string{"patroni", "consul"} {
		f := allButTheLeader(kind)
		for _, i := range []int{0, 2, 3} {
			f.obs.Slots[i].Report.Role = RoleLearner
		}
		for i := range f.obs.Slots {
			if kind == "consul" {
				f.obs.Slots[i].Report.Voters = []string{"db-1"}
			}
		}
		p := f.plan()
		wantExecutes(t, p, "UPDATE db-1")
		op, _ := p.Begin(actionOf(t, p, "db-1"), 1, f.now)
		op.Phase = operation.Drained
		if facts := f.facts(op); !facts.Safe {
			t.Errorf("%s: not safe: %s", kind, facts.SafeReason)
		}
		f.at(2, "A")
		wantHeld(t, f.plan(), "db-1", HoldLeaderLast)
		f.at(2, "B").spec.UpdatePolicy.Interruption = group.InterruptionRefuse
		wantHeld(t, f.plan(), "db-1", HoldInterruption)
	}
}

func TestR54_ARestartOfTheLeaderHandsOverToo(t *testing.T) {
	f := newFixture(3, "patroni")
	f.asks("db-0", "q")
	p := f.plan()
	wantExecutes(t, p, "RESTART db-0")
	if tr := actionOf(t, p, "db-0").Transfer; tr == nil || tr.Candidates[0] != "db-1" {
		t.Errorf("transfer %+v", tr)
	}
}

func TestR55_AStaleViewMakesNoSecondTransfer(t *testing.T) {
	f := allButTheLeader("consul")
	f.obs.Slots[0].Report.Role = RoleLeader // db-0 leads already; db-1's report is older
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-1", HoldLeaderUnknown)
}

func TestR55_EverybodyMustProveTheTargetBeforeTheLeadersStep(t *testing.T) {
	f := allButTheLeader("consul").at(2, "A") // one member reports another generation
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-2")
	wantHeld(t, p, "db-1", HoldLeaderLast)
}

// TestOPS01_NoSizeLosesItsMajority: for any size, number of sick voters and operator request, the begun steps leave a
// majority of healthy voters. For one or two voters, R18 and R19 decide.
func TestOPS01_NoSizeLosesItsMajority(t *testing.T) {
	some := false
	for n := 3; n <= 9; n++ {
		for sick := range n + 1 {
			for replicas := 1; replicas <= n; replicas++ {
				f := newFixture(n, "consul").want("B")
				members := f.spec.Members()
				f.spec.Replicas, f.spec.UpdatePolicy.MaxUnavailableFixed = replicas, &n
				for i := n - sick; i < n; i++ {
					f.sick(i)
				}
				begun := executes(f.plan())
				left, voters := n-sick, n
				for _, call := range begun {
					kind, slot, _ := strings.Cut(call, " ")
					if slices.Index(members, slot) < n-sick {
						left--
					}
					if kind == "DELETE" {
						voters--
					}
				}
				some = some || len(begun) > 0
				if left < n-sick && left < group.Quorum(voters) || voters < n && left < group.Quorum(voters) {
					t.Errorf("%d voters, %d sick, %d wanted: %v leaves %d of %d", n, sick, replicas, begun, left, voters)
				}
			}
		}
	}
	if !some {
		t.Error("nothing was ever begun")
	}
}

// TestTheStatusSaysThatQuorumIsLost only while too few voters are healthy.
func TestTheStatusSaysThatQuorumIsLost(t *testing.T) {
	lost := func(f *fixture) bool {
		return slices.ContainsFunc(f.plan().Status.Conditions, func(c group.Condition) bool { return c.Type == ConditionQuorum && !c.Status })
	}
	if f := newFixture(3, "etcd").sick(2); lost(f) {
		t.Error("one of three voters is sick, and quorum is said to be lost")
	}
	if f := newFixture(3, "etcd").sick(2).sick(1); !lost(f) {
		t.Errorf("two of three voters are sick: %+v", f.plan().Status.Conditions)
	}
	if f := newFixture(3, "patroni").sick(2).sick(1); lost(f) {
		t.Error("a group without voters is said to have lost its quorum")
	}
}

func TestR53_ARetryGivesNoSecondTransfer(t *testing.T) {
	f := allButTheLeader("consul")
	f.op(1, operation.Aborted, func(op *operation.Operation) {
		op.Transfer = &operation.Transfer{ExpectedLeader: "db-1", Made: true, To: "db-0"}
		op.Failure.Cause, op.Times.Ended = operation.CausePaused, epoch
	})
	f.rec.Rollout.State, f.rec.Rollout.Transfers, f.rec.Rollout.Steps = operation.FailedState, 1, 9
	f.obs.Requests = []Request{{ID: "r", Kind: RequestRetry}}
	p := f.plan()
	wantHeld(t, p, "db-1", HoldTransferBudget)
	if p.Rollout.Transfers != 1 {
		t.Errorf("%d transfers", p.Rollout.Transfers)
	}
}

// TestATerminatingMemberMayTakeOver: the group shrinks to its leader, while the other members still run. The other
// members run because no operator agreed to lose their disks. The leader's update hands leadership to one of them;
// earlier it interrupted the service. Found by the simulator, seed 15.
func TestATerminatingMemberMayTakeOver(t *testing.T) {
	f := newFixture(4, "patroni").want("B").rolling()
	f.spec.Replicas = 1
	p := f.plan()
	tr := actionOf(t, p, "db-0").Transfer
	if tr == nil || !tr.Interim || tr.ExpectedLeader != "db-0" || !slices.Equal(tr.Candidates, []string{"db-1", "db-2", "db-3"}) {
		t.Errorf("transfer: %+v", tr)
	}
}

// TestAnInterimTransferIsNotTheRolloutsOne: a member took over only because it was still running. When the group keeps
// it after all, it hands leadership over again. Found by the simulator, seed 1040.
func TestAnInterimTransferIsNotTheRolloutsOne(t *testing.T) {
	f := newFixture(3, "patroni").want("B").rolling().at(0, "B").at(2, "B")
	f.lead(1)
	f.op(0, operation.Done, func(op *operation.Operation) {
		op.Transfer = &operation.Transfer{ExpectedLeader: "db-0", Made: true, To: "db-1", Interim: true}
	})
	p := f.plan()
	if tr := actionOf(t, p, "db-1").Transfer; tr == nil || tr.Interim {
		t.Errorf("transfer: %+v", tr)
	}
	wantExecutes(t, p, "UPDATE db-1")
}

// TestAMessageCountsMembersBeyondTheNamedOnes: the message has the number of members that it does not name.
func TestAMessageCountsMembersBeyondTheNamedOnes(t *testing.T) {
	for want, s := range map[string]away{
		"db-1 is":                   {n: 1, some: []string{"db-1"}},
		"db-1, db-2 are":            {n: 2, some: []string{"db-1", "db-2"}},
		"db-1, db-2 and 3 more are": {n: 5, some: []string{"db-1", "db-2"}},
	} {
		if got := s.are(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestR18_TheOnlyMemberWaitsForNoLeader: no other member could lead.
func TestR18_TheOnlyMemberWaitsForNoLeader(t *testing.T) {
	for n, held := range map[int]bool{1: false, 2: true} {
		f := newFixture(n, "patroni").want("B").rolling()
		for i := range n {
			f.obs.Slots[i].Report.Role = RoleFollower
		}
		if p := f.plan(); actionOf(t, p, "db-0").HeldBy(HoldLeaderUnknown) != held {
			t.Errorf("%d members: %s", n, describe(p))
		}
	}
}

// TestR18_TheLastMemberIsNotAloneWhileAnotherOneLeaves: the member that is to be removed may lead as long as it runs.
func TestR18_TheLastMemberIsNotAloneWhileAnotherOneLeaves(t *testing.T) {
	f := newFixture(2, "patroni").want("B")
	f.spec.Replicas = 1
	f.rolling()
	for i := range f.obs.Slots {
		f.obs.Slots[i].Report.Role = RoleFollower
	}
	wantHeld(t, f.plan(), "db-0", HoldLeaderUnknown)
	w := seenBy(f)
	if w.alone(w.find("db-0")) {
		t.Error("db-0 counts as the only member")
	}
}

// TestR46_MembersThatVoteUnderAnEarlierWorkloadKeepTheirMajority: the spec names a workload without votes now, while
// the running members still vote among themselves.
func TestR46_MembersThatVoteUnderAnEarlierWorkloadKeepTheirMajority(t *testing.T) {
	former := func(n int) *fixture {
		f := newFixture(n, "consul")
		f.spec.Workload = group.Workload{Kind: "none"}
		return f.rolling()
	}
	f := former(4)
	f.spec.Replicas = 3
	wantHeld(t, f.plan(), "db-3", HoldVoterScaleIn)
	for name, c := range map[string]struct {
		edit func(f *fixture)
		held string
	}{
		"two others are healthy": {func(*fixture) {}, ""},
		"one other lags":         {func(f *fixture) { f.lagging(2, 10) }, HoldQuorum},
		"members do not agree":   {func(f *fixture) { f.obs.Slots[2].Report.Voters = []string{"db-2"} }, HoldQuorumUnknown},
		"no member tells of them": {func(f *fixture) {
			f.obs.Slots[0].Report.Voters = nil
			f.obs.Slots[1].Report.Voters = nil
			f.obs.Slots[2].Report.Voters = nil
		}, HoldQuorumUnknown},
	} {
		f := former(3)
		c.edit(f)
		a := actionOf(t, f.asksFor(RequestReplace, "db-1", "q").plan(), "db-1")
		if a.Kind != operation.Replace || c.held != "" && !a.HeldBy(c.held) || c.held == "" && (a.HeldBy(HoldQuorum) || a.HeldBy(HoldQuorumUnknown)) {
			t.Errorf("%s: %s is held by %v, want %q", name, a.Kind, holdNames(a), c.held)
		}
	}
}
