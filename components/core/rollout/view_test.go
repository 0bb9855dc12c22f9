package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// seenBy is the world of a fixture, with its rollout and its view.
func seenBy(f *fixture) *world { return Evaluate(f.spec, f.rec, f.obs, f.now, f.t).w }

// TestALeaderIsTheOnlyClaimant: the leader is the one claimant, and no healthy member names another leader.
func TestALeaderIsTheOnlyClaimant(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*fixture)
		leader string
		doubt  string
	}{
		"one, named by all": {func(*fixture) {}, "db-0", ""},
		"two":               {func(f *fixture) { f.obs.Slots[1].Report.Role = RoleLeader }, "", "both say they lead"},
		"nobody": {func(f *fixture) {
			for i := range f.obs.Slots {
				f.obs.Slots[i].Report.Role, f.obs.Slots[i].Report.Leader = RoleFollower, ""
			}
		}, "", "no member says it leads"},
		"one that is silent, named": {func(f *fixture) { f.silent(0, f.now) }, "", "db-1 says db-0 does"},
		"another is named":          {func(f *fixture) { f.obs.Slots[1].Report.Leader = "db-2" }, "", "db-1 says db-2 leads"},
		"another is named, by a dead": {func(f *fixture) {
			f.obs.Slots[1].Report.Leader, f.obs.Slots[1].Report.Liveness = "db-2", LivenessRefused
		}, "db-0", ""},
		"by one that is not ready": {func(f *fixture) { f.obs.Slots[1].Report.Leader, f.obs.Slots[1].Report.MemberReady = "db-2", false }, "db-0", ""},
		"of another term":          {func(f *fixture) { f.obs.Slots[1].Report.Epoch = 6 }, "", "db-1 is at term 6"},
		"of a term nobody tells":   {func(f *fixture) { f.obs.Slots[1].Report.Epoch = 0 }, "db-0", ""},
		"the platform stopped it": {func(f *fixture) {
			f.obs.Slots[0].Instance.Status = "stopped"
			f.obs.Slots[0].Report.ReceivedAt = f.now.Add(-time.Hour)
		}, "", "db-1 says db-0 does"},
	} {
		f := newFixture(3, "consul")
		c.edit(f)
		v := seenBy(f).view
		if v.leader != c.leader || !strings.Contains(v.leaderDoubt, c.doubt) || (v.leaderDoubt == "") != (c.doubt == "") {
			t.Errorf("%s: %q leads, doubt %q", name, v.leader, v.leaderDoubt)
		}
	}
}

// TestR43_TheMembersOwnListsDecideTheVoters: the members' own lists decide. Different lists make the voters unknown,
// and the last report of a gone or leaving member does not count.
func TestR43_TheMembersOwnListsDecideTheVoters(t *testing.T) {
	odd := func(f *fixture) { f.obs.Slots[2].Report.Voters = []string{"db-2"} }
	for name, c := range map[string]struct {
		edit    func(*fixture)
		voters  int
		healthy int
		doubt   bool
	}{
		"all agree":          {func(*fixture) {}, 3, 3, false},
		"in another order":   {func(f *fixture) { f.obs.Slots[2].Report.Voters = []string{"db-2", "db-0", "db-1", "db-0"} }, 3, 3, false},
		"one says otherwise": {odd, 0, 0, true},
		"one that is gone says otherwise": {func(f *fixture) {
			odd(f)
			f.obs.Slots[2].Instance = nil
		}, 3, 2, false},
		"the listing does not answer": {func(f *fixture) {
			f.obs.Slots[2].Instance, f.obs.Platform.Known = nil, false
		}, 3, 3, false},
		"one that leaves says otherwise": {func(f *fixture) {
			odd(f)
			f.op(2, operation.Drained, func(op *operation.Operation) { op.Kind, op.Set.Leaves = operation.Delete, true })
		}, 3, 3, false},
		"one that is to leave and was not told": {func(f *fixture) {
			odd(f)
			f.op(2, operation.Drained, func(op *operation.Operation) { op.Kind = operation.Delete })
		}, 0, 0, true},
		"one that was taken out and is cut off": {func(f *fixture) {
			for i := range 2 {
				f.obs.Slots[i].Report.Voters = []string{"db-0", "db-1"}
			}
			r := f.obs.Slots[2].Report
			r.Leader, r.MemberReady = "", false
		}, 2, 2, false},
		"one that is no voter says otherwise": {func(f *fixture) { odd(f); f.obs.Slots[2].Report.QuorumMember = false }, 3, 3, false},
		"one is down":                         {func(f *fixture) { f.obs.Slots[2].Report.MemberReady = false }, 3, 2, false},
		"one is dead":                         {func(f *fixture) { f.obs.Slots[2].Report.Liveness = LivenessRefused }, 3, 2, false},
		"one lags":                            {func(f *fixture) { f.lagging(2, 7) }, 3, 2, false},
		"one is stopped and still heard":      {func(f *fixture) { f.obs.Slots[2].Instance.Status = "stopped" }, 3, 2, false},
		"one is silent":                       {func(f *fixture) { f.silent(2, f.now) }, 3, 2, false},
	} {
		f := newFixture(3, "consul")
		c.edit(f)
		v := seenBy(f).view
		if len(v.voters) != c.voters || (v.votersDoubt != "") != c.doubt || !c.doubt && len(v.healthy) != c.healthy {
			t.Errorf("%s: voters %v, healthy %v, doubt %q", name, v.voters, v.healthy, v.votersDoubt)
		}
	}
}

// TestR125_FollowersNameASilentLeader: no other member names the leader, and no report names a leader that is certainly
// down.
func TestR125_FollowersNameASilentLeader(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want bool
	}{
		"it is silent": {func(*fixture) {}, true},
		"it speaks": {func(f *fixture) {
			f.obs.Slots[0].Report = healthyReport("db-0", f.now, "consul", nil)
			f.obs.Slots[0].Report.Role = RoleFollower
		}, false},
		"only a learner names it": {func(f *fixture) {
			f.obs.Slots[1].Report.Leader = ""
			f.obs.Slots[2].Report.Role = RoleLearner
		}, true},
		"only a dead one names it":       {func(f *fixture) { f.obs.Slots[1].Report.Leader = ""; f.obs.Slots[2].Report.Liveness = LivenessRefused }, false},
		"only one without a part":        {func(f *fixture) { f.obs.Slots[1].Report.Leader = ""; f.obs.Slots[2].Report.Role = RoleNone }, false},
		"its CVM is gone":                {func(f *fixture) { f.obs.Slots[0].Instance = nil }, false},
		"its CVM is gone, nobody looked": {func(f *fixture) { f.obs.Slots[0].Instance = nil; f.blind("the platform") }, true},
		"its CVM is stopped":             {func(f *fixture) { f.obs.Slots[0].Instance.Status = "stopped" }, false},
		"its CVM does not boot":          {func(f *fixture) { f.obs.Slots[0].Instance.BootError = "no image" }, false},
	} {
		f := newFixture(3, "consul")
		f.silent(0, f.now)
		c.edit(f)
		if got := seenBy(f).find("db-0").named; got != c.want {
			t.Errorf("%s: named %t", name, got)
		}
	}
}

// TestR31_TheOrderCountsAListedMemberAsAVoter: where no member lists the voters, the role of a member decides.
func TestR31_TheOrderCountsAListedMemberAsAVoter(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		edit func(*fixture)
		want bool
	}{
		"a voter":                                  {"consul", func(*fixture) {}, true},
		"one that is not listed":                   {"consul", func(f *fixture) { f.listed("db-0", "db-1") }, false},
		"a learner, where nobody lists":            {"patroni", func(f *fixture) { f.obs.Slots[2].Report.Role = RoleLearner }, false},
		"a follower, where nobody lists":           {"patroni", func(*fixture) {}, true},
		"one that is silent, where nobody lists":   {"patroni", func(f *fixture) { f.silent(2, f.now) }, true},
		"one without a part, where nobody lists":   {"patroni", func(f *fixture) { f.obs.Slots[2].Report.Role = RoleNone }, false},
		"one of a workload without roles":          {"none", func(*fixture) {}, false},
		"one that is silent, of one without roles": {"none", func(f *fixture) { f.silent(2, f.now) }, false},
	} {
		f := newFixture(3, c.kind)
		c.edit(f)
		if w := seenBy(f); w.voter(w.find("db-2")) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}

// listed makes every voter list the given voters.
func (f *fixture) listed(voters ...string) {
	for i := range f.obs.Slots {
		f.obs.Slots[i].Report.Voters = voters
	}
}

// TestR10_WhenAnAgentIsExpected: a Boot that an Operation ended, or a Boot that is certainly down, has no expected
// agent.
func TestR10_WhenAnAgentIsExpected(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want bool
	}{
		"it runs":                 {func(*fixture) {}, true},
		"a step is under way":     {func(f *fixture) { f.op(2, operation.Draining, nil) }, false},
		"no CVM":                  {func(f *fixture) { f.obs.Slots[2].Instance = nil }, false},
		"nobody is admitted":      {func(f *fixture) { f.obs.Slots[2].Admission = nil }, false},
		"it is stopped":           {func(f *fixture) { f.obs.Slots[2].Instance.Status = "stopped" }, false},
		"it does not boot":        {func(f *fixture) { f.obs.Slots[2].Instance.BootError = "no image" }, false},
		"it was given another":    {func(f *fixture) { f.silent(2, f.now); f.rec.Slots[2].Assigned = "other" }, false},
		"it was, and still talks": {func(f *fixture) { f.rec.Slots[2].Assigned = "other" }, true},
		"it is only silent":       {func(f *fixture) { f.silent(2, f.now) }, true},
		"silent, never assigned":  {func(f *fixture) { f.silent(2, f.now); f.rec.Slots[2].Assigned = "" }, true},
	} {
		f := newFixture(3, "none")
		c.edit(f)
		if got := seenBy(f).find("db-2").expected(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestR39_AnUnprovenSlotHasItsGivenRevision: the open step, the platform's hash or the record names the Revision
// without a proof.
func TestR39_AnUnprovenSlotHasItsGivenRevision(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want bool
	}{
		"another hash": {func(*fixture) {}, false},
		"the target's hash, and its policy lets in what is assigned": {func(f *fixture) { f.obs.Slots[2].Instance.ComposeHash = hashOf("B") }, false},
		"the target's hash, which it was given": {func(f *fixture) {
			f.obs.Slots[2].Instance.ComposeHash, f.rec.Slots[2].Assigned = hashOf("B"), f.rec.Status.Target
		}, true},
		"the target's hash, which that has that it was given": {func(f *fixture) {
			f.obs.Slots[2].Instance.ComposeHash, f.rec.Slots[2].Assigned = hashOf("B"), "agent spec"
			f.rec.Revisions["agent spec"] = f.rec.Revisions[f.rec.Status.Target]
		}, true},
		"the target's hash, and nothing is assigned": {func(f *fixture) {
			f.obs.Slots[2].Instance.ComposeHash, f.rec.Slots[2].Assigned = hashOf("B"), ""
		}, true},
		"its hash, and it is down": {func(f *fixture) {
			i := f.obs.Slots[2].Instance
			i.ComposeHash, i.Status = hashOf("B"), "stopped"
		}, false},
		"the same, and a step to it is only recorded": {func(f *fixture) {
			i := f.obs.Slots[2].Instance
			i.ComposeHash, i.Status, f.rec.Slots[2].Assigned = hashOf("B"), "stopped", f.rec.Status.Target
			f.op(2, operation.Draining, func(op *operation.Operation) { op.From = revisionOf(f.spec, "A") })
		}, false},
		"it is down, and was told to boot it": {func(f *fixture) {
			i := f.obs.Slots[2].Instance
			i.ComposeHash, i.Status, f.rec.Slots[2].Assigned = hashOf("B"), "stopped", f.rec.Status.Target
		}, true},
		"its hash, and another size": {func(f *fixture) {
			i := f.obs.Slots[2].Instance
			i.ComposeHash, i.Shape.InstanceType = hashOf("B"), "tdx.large"
		}, false},
		"a step to it has acted":             {func(f *fixture) { f.op(2, operation.Booting, nil) }, true},
		"a step to another one has":          {func(f *fixture) { f.op(2, operation.Booting, func(op *operation.Operation) { op.To = "other" }) }, false},
		"no hash is told, and none assigned": {func(f *fixture) { f.obs.Slots[2].Instance.ComposeHash = "" }, false},
		"no hash is told, and it is assigned": {func(f *fixture) {
			f.obs.Slots[2].Instance.ComposeHash = ""
			f.rec.Slots[2].Assigned = f.rec.Status.Target
		}, true},
		"assigned, and called off": {func(f *fixture) {
			f.obs.Slots[2].Instance.ComposeHash = ""
			f.rec.Slots[2].Assigned = f.rec.Status.Target
			f.op(2, operation.Aborted, nil)
		}, false},
		"assigned, and there is no CVM": {func(f *fixture) { f.obs.Slots[2].Instance = nil; f.rec.Slots[2].Assigned = f.rec.Status.Target }, false},
	} {
		f := newFixture(3, "none").want("B").rolling()
		f.obs.Slots[2].Admission = nil
		c.edit(f)
		if w := seenBy(f); w.givenTarget(w.find("db-2")) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}

// TestR70_OperationsGoByTheirNumber: for any order of the store's listing, and for Operations of any rollout.
func TestR70_OperationsGoByTheirNumber(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	f.op(2, operation.Aborted, nil).op(2, operation.Failed, nil)
	f.op(2, operation.Failed, func(op *operation.Operation) { op.Rollout = "another" })
	f.op(2, operation.Failed, func(op *operation.Operation) {
		op.Actor, op.Rollout, op.Kind = operation.ActorHealing, "", operation.Restart
	})
	f.op(2, operation.Done, func(op *operation.Operation) { op.Rollout, op.Kind = "", operation.Drain })
	f.op(1, operation.Draining, nil)
	ops := f.rec.Operations
	ops[0], ops[1] = ops[1], ops[0]
	w := seenBy(f)
	m := w.find("db-2")
	if len(m.past) != 2 || m.past[0].Phase != operation.Aborted || m.last().Phase != operation.Failed || m.open != nil {
		t.Errorf("past %+v", m.past)
	}
	if len(m.healed) != 1 || len(m.drains) != 1 || w.find("db-1").open == nil {
		t.Errorf("%d healed it, %d drained it, open %v", len(m.healed), len(m.drains), w.find("db-1").open)
	}
	f.rec.Rollout.Forgiven = 1
	if m = seenBy(f).find("db-2"); len(m.past) != 1 || m.past[0].Phase != operation.Failed {
		t.Errorf("past %+v, and the first is forgiven", m.past)
	}
}

// TestWhichAppAGroupIsOf: the app of its spec, then of its records, then of its CVMs.
func TestWhichAppAGroupIsOf(t *testing.T) {
	f := newFixture(2, "none")
	f.rec.Slots[1].AppID, f.obs.Slots[1].Instance.AppID = "recorded", "listed"
	f.rec.Slots[0].AppID, f.obs.Slots[0].Instance.AppID = "", ""
	for _, want := range []string{f.spec.AppID, "recorded", "listed", ""} {
		if got := seenBy(f).knownAppID(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		switch want {
		case f.spec.AppID:
			f.spec.AppID = ""
		case "recorded":
			f.rec.Slots[1].AppID = ""
		case "listed":
			f.obs.Slots[1].Instance.AppID = ""
		}
	}
}

// TestFactsNameTheListedMembers: the facts also have the refusal, and the set's id of the member.
func TestFactsNameTheListedMembers(t *testing.T) {
	f := newFixture(3, "etcd").want("B")
	op := drained(f, 2)
	f.obs.Slots[0].Report.MemberIDs = map[string]string{"db-2": "a1"}
	f.obs.Slots[2].Refusal = &policy.Refusal{Code: policy.CodeRevisionNotAllowed, Message: "no", At: f.now}
	f.obs.Slots[2].Duplicates = []Instance{{VMUUID: "vm-9"}}
	i := f.obs.Slots[2].Instance
	i.InProgress, i.BootError, i.UpdatedAt = true, "no image", epoch
	got := f.facts(op)
	if got.Member != "a1" || got.Set != operation.SetListed || got.Duplicates != 1 || got.Refusal == nil || got.Refusal.Code != string(policy.CodeRevisionNotAllowed) || !got.Refusal.At.Equal(f.now) {
		t.Errorf("facts %+v", got)
	}
	if p := got.Platform; !p.InProgress || p.BootError != "no image" || !p.UpdatedAt.Equal(epoch) || p.Former || p.Running {
		t.Errorf("platform %+v", p)
	}
	// A terminating Slot without record and CVM is empty, and judged by the facts about the whole group.
	op.Slot, op.Kind = "db-9", operation.Delete
	if got = f.facts(op); !got.PlatformKnown || !got.Safe || got.Platform != nil {
		t.Errorf("nothing is left of it: %+v", got)
	}
	f.blind("the platform")
	if got = f.facts(op); got.PlatformKnown || got.Safe || !strings.Contains(got.SafeReason, "the platform") {
		t.Errorf("nobody looked: %+v", got)
	}
}

// TestConditionsKeepTheirTime: a condition keeps its time until the status or the reason changes.
func TestConditionsKeepTheirTime(t *testing.T) {
	since := func(f *fixture, kind string) time.Time {
		t.Helper()
		for _, c := range f.plan().Status.Conditions {
			if c.Type == kind {
				return c.Since
			}
		}
		return time.Time{}
	}
	f := newFixture(3, "none")
	f.obs.Simulated = true
	f.rec.Problems = []policy.Problem{{Reason: policy.ProblemFloorUnknown, Message: "one"}, {Reason: policy.ProblemUnreadable, Message: "two"}}
	f.obs.Orphans = []string{"vm-9", "vm-7"}
	for kind, text := range map[string]string{
		ConditionSimulated: "simulated root", ConditionAdmissionPolicy: "one; two", ConditionOrphans: "vm-7, vm-9", ConditionAvailable: "3 of 3", ConditionUpdated: "3 of 3",
	} {
		if !strings.Contains(conditionText(f, kind), text) {
			t.Errorf("%s: %q, want %q", kind, conditionText(f, kind), text)
		}
		if got := since(f, kind); !got.Equal(f.now) {
			t.Errorf("%s: since %s", kind, got)
		}
	}
	f.rec.Status.Conditions = f.plan().Status.Conditions
	began := f.now
	f.now, f.obs.At = f.now.Add(time.Second), f.now.Add(time.Second)
	if got := since(f, ConditionAvailable); !got.Equal(began) {
		t.Errorf("since %s, want %s", got, began)
	}
	for i := range f.rec.Status.Conditions {
		f.rec.Status.Conditions[i].Reason = "Another"
	}
	if got := since(f, ConditionAvailable); !got.Equal(f.now) {
		t.Errorf("since %s, and it has another reason now", got)
	}
	if f.sick(2); conditionText(f, ConditionAvailable) != "2 of 3 slots are available" || !since(f, ConditionAvailable).Equal(f.now) {
		t.Errorf("%q since %s", conditionText(f, ConditionAvailable), since(f, ConditionAvailable))
	}
}

// TestAGroupIsUpdatedWhereNothingIsLeftToDo, after a complete pass: a caller that waits for the condition goes on
// then.
func TestAGroupIsUpdatedWhereNothingIsLeftToDo(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(f *fixture)
		want   bool
		reason string
	}{
		"all run the target":                      {func(*fixture) {}, true, "AtTarget"},
		"one is left":                             {func(f *fixture) { f.want("B").at(0, "B").at(1, "B") }, false, "Outdated"},
		"all ran it, and the platform is silent":  {func(f *fixture) { f.blind("the platform") }, false, "AtTarget"},
		"one is left, and the platform is silent": {func(f *fixture) { f.want("B").at(0, "B").at(1, "B").blind("the platform") }, false, "Outdated"},
	} {
		f := newFixture(3, "none")
		c.edit(f)
		conditions := f.plan().Status.Conditions
		at := slices.IndexFunc(conditions, func(c group.Condition) bool { return c.Type == ConditionUpdated })
		if at < 0 || conditions[at].Status != c.want || conditions[at].Reason != c.reason {
			t.Errorf("%s: %+v", name, conditions)
		}
	}
}

func conditionText(f *fixture, kind string) string {
	for _, c := range f.plan().Status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

// TestAStepHasANameInTheSlotState: the reported Slot state names the step.
func TestAStepHasANameInTheSlotState(t *testing.T) {
	for name, c := range map[string]struct {
		op   func(*operation.Operation)
		at   operation.Phase
		want group.SlotState
	}{
		"a drain":              {nil, operation.Draining, "Draining"},
		"drained":              {nil, operation.Drained, "Drained"},
		"updates":              {nil, operation.Acting, "Updating"},
		"restarts":             {func(op *operation.Operation) { op.Kind = operation.Restart }, operation.Acting, "Restarting"},
		"is replaced":          {func(op *operation.Operation) { op.Kind = operation.Replace }, operation.Acting, "Replacing"},
		"boots":                {nil, operation.Booting, "Booting"},
		"goes":                 {func(op *operation.Operation) { op.Kind = operation.Delete }, operation.Booting, "Deleting"},
		"attests anew":         {func(op *operation.Operation) { op.Way.Mode = operation.ModeRefresh }, operation.Booting, "Refreshing"},
		"is about to":          {func(op *operation.Operation) { op.Way.Mode = operation.ModeRefresh }, operation.Drained, "Refreshing"},
		"its service restarts": {func(op *operation.Operation) { op.Kind, op.Way.Service = operation.Restart, "db" }, operation.Booting, "Restarting"},
		"joins":                {nil, operation.Joining, "Joining"},
		"settles":              {nil, operation.Settling, "Settling"},
		"did not get there":    {nil, operation.Failed, "Failed"},
	} {
		f := newFixture(3, "none").want("B").rolling().op(2, c.at, c.op)
		f.rec.Operations[0].Reason = "because"
		if c.at.Ended() {
			f.sick(2)
		}
		s := f.plan().Status.Instances[2]
		if s.State != c.want {
			t.Errorf("%s: %s", name, s.State)
		}
		if under := s.Operation != ""; under == c.at.Ended() || under && s.Phase != string(c.at) || s.Reason != "because" {
			t.Errorf("%s: operation %q at %s: %q", name, s.Operation, s.Phase, s.Reason)
		}
	}
}

// TestR11_AnIncompletePassNamesTheSourceThatDidNotAnswer, and no step begins.
func TestR11_AnIncompletePassNamesTheSourceThatDidNotAnswer(t *testing.T) {
	for want, edit := range map[string]func(o *Observation){
		"slots/db/db-1 cannot be read": func(o *Observation) { o.Records = Source{Silent: "slots/db/db-1 cannot be read"} },
		"a record cannot be read":      func(o *Observation) { o.Records, o.Platform = Source{}, Source{} },
		"429":                          func(o *Observation) { o.Platform = Source{Silent: "429"} },
		"the platform did not answer":  func(o *Observation) { o.Platform = Source{} },
	} {
		f := newFixture(3, "none").want("B").rolling()
		edit(&f.obs)
		p := f.plan()
		wantExecutes(t, p)
		wantHeld(t, p, "db-1", HoldIncomplete)
		if got := actionOf(t, p, "db-1").Holds[0].Message; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestR125_AMemberDoesNotFollowItself: only another live member proves that a leader works.
func TestR125_AMemberDoesNotFollowItself(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture)
		want bool
	}{
		"it names itself alone":    {func(*fixture) {}, false},
		"another one names it":     {func(f *fixture) { f.obs.Slots[1].Report.Leader = "db-0" }, true},
		"another one names itself": {func(f *fixture) { f.obs.Slots[1].Report.Leader = "db-1" }, false},
		"the other one is down":    {func(f *fixture) { f.sick(1).obs.Slots[1].Report.Leader = "db-0" }, false},
	} {
		f := newFixture(3, "patroni")
		for i := range f.obs.Slots {
			f.obs.Slots[i].Report.Leader = ""
		}
		f.obs.Slots[0].Report.Leader = "db-0"
		c.edit(f)
		w := seenBy(f)
		if got := w.followed(w.find("db-0")); got != c.want {
			t.Errorf("%s: followed %t", name, got)
		}
	}
}

// TestUpdatedMeansThatEverySlotIsAtTheTarget: a Slot that is being replaced, or that never attested, is not.
func TestUpdatedMeansThatEverySlotIsAtTheTarget(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture)
		want bool
	}{
		"all are there": {func(*fixture) {}, true},
		"one is replaced for the target": {func(f *fixture) {
			for i := range 3 {
				f.at(i, "B")
			}
			f.want("B").rolling().at(2, "A").op(2, operation.Booting, func(op *operation.Operation) { op.Kind = operation.Replace })
		}, false},
		"a new group boots": {func(f *fixture) {
			for i := range f.obs.Slots {
				f.obs.Slots[i].Admission, f.obs.Slots[i].Report, f.rec.Slots[i].WasAvailableAt = nil, nil, ""
			}
		}, false},
		"one is left out": {func(f *fixture) {
			f.want("B").rolling().at(0, "B").at(1, "B")
			f.spec.Instances = []group.InstanceSettings{{Ordinal: 2, ExcludeFromRollout: true}}
		}, true},
	} {
		f := newFixture(3, "none")
		c.edit(f)
		conditions := f.plan().Status.Conditions
		at := slices.IndexFunc(conditions, func(c group.Condition) bool { return c.Type == ConditionUpdated })
		if got := conditions[at]; got.Status != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
