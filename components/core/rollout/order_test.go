package rollout

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"

	"cadre.dev/core/policy"
)

// sequence returns the order of the plan's Actions, held or not.
func sequence(p Plan) (out []string) {
	for _, a := range p.Actions {
		if a.Operation == "" {
			out = append(out, a.Slot)
		}
	}
	return out
}

func wantSequence(t *testing.T, p Plan, want ...string) {
	t.Helper()
	got := sequence(p)
	if len(got) != len(want) {
		t.Fatalf("order %v, want %v\n%s", got, want, describe(p))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("order %v, want %v\n%s", got, want, describe(p))
			return
		}
	}
}

func TestR31_Classes(t *testing.T) {
	f := newFixture(7, "consul").want("C")
	f.spec.UpdatePolicy.Partition = 0
	f.asks("db-1", "q") // 1: marked
	f.sick(2)           // 2: broken
	f.at(3, "B")        // 3: at a failed revision
	f.rec.Status.FailedRevisions = []string{revisionOf(f.spec, "B")}
	for i := range f.obs.Slots { // 4: not a voter
		if r := f.obs.Slots[i].Report; r.QuorumMember {
			r.Voters = []string{"db-0", "db-1", "db-2", "db-3", "db-5", "db-6"}
		}
	}
	f.obs.Slots[4].Report.Role = RoleLearner
	p := f.plan()
	wantSequence(t, p, "db-1", "db-2", "db-3", "db-4", "db-6", "db-5", "db-0")
	for slot, class := range map[string]Class{"db-1": 1, "db-2": 2, "db-3": 3, "db-4": 4, "db-6": 5, "db-5": 5, "db-0": 6} {
		if a := actionOf(t, p, slot); a.Class != class {
			t.Errorf("%s has class %d, want %d", slot, a.Class, class)
		}
	}
}

func TestR31_MostBrokenFirst(t *testing.T) {
	f := newFixture(5, "patroni").want("B")
	f.silent(0, f.now.Add(-6*time.Minute)) // unknown past lost_after
	f.lagging(1, 10)                       // lagging
	f.sick(2)                              // process down
	f.stopped(3)                           // never booted
	f.lead(4)
	wantSequence(t, f.plan(), "db-3", "db-2", "db-1", "db-0", "db-4")
}

func TestR31_AHealthyMarkedSlotNeedsBudget(t *testing.T) {
	f := newFixture(3, "none").want("B").sick(0)
	f.asks("db-1", "q")
	p := f.plan()
	wantHeld(t, p, "db-1", HoldMaxUnavailable)
	wantExecutes(t, p, "UPDATE db-0")
}

func TestR31_SilenceIsNotBrokennessBeforeLostAfter(t *testing.T) {
	f := newFixture(3, "none").want("B")
	f.silent(1, f.now.Add(-4*time.Minute))
	p := f.plan()
	wantHeld(t, p, "db-1", HoldUnknownHealth)
	if a := actionOf(t, p, "db-1"); a.Class == ClassBroken {
		t.Error("a silent slot is called broken")
	}
	if !p.Wake.Equal(f.now.Add(time.Minute)) && p.Wake.After(f.now.Add(time.Minute)) {
		t.Errorf("wakes at %s", p.Wake)
	}
	f.silent(1, f.now.Add(-5*time.Minute))
	wantExecutes(t, f.plan(), "UPDATE db-1")
}

func TestR31_ANewLeaderWithoutReportsCallsNoMemberBroken(t *testing.T) {
	f := newFixture(3, "consul").want("B")
	for i := range f.obs.Slots {
		f.obs.Slots[i].Report = nil // no report since the agent started
	}
	wantExecutes(t, f.plan())
}

func TestR32_TiesGoByOrdinalDescending(t *testing.T) {
	wantSequence(t, newFixture(4, "none").want("B").plan(), "db-3", "db-2", "db-1", "db-0")
	f := newFixture(4, "none").want("B").sick(0).sick(2)
	wantSequence(t, f.plan(), "db-2", "db-0", "db-3", "db-1")
}

func TestR33_EachPassReadsLeadershipAgain(t *testing.T) {
	f := newFixture(4, "consul").want("B")
	wantExecutes(t, f.plan(), "UPDATE db-3")
	f.lead(3) // leadership moved to the next candidate
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-2")
	wantHeld(t, p, "db-3", HoldLeaderLast)
	if a := actionOf(t, p, "db-3"); a.Class != ClassLeader {
		t.Errorf("class %d", a.Class)
	}
}

func TestR34_WithoutALeaderNoHealthyVoterMoves(t *testing.T) {
	for name, edit := range map[string]func(*fixture){
		"no leader":       func(f *fixture) { f.obs.Slots[0].Report.Role = RoleFollower },
		"two claimants":   func(f *fixture) { f.obs.Slots[1].Report.Role = RoleLeader },
		"differing terms": func(f *fixture) { f.obs.Slots[1].Report.Epoch = 6 },
		"another name":    func(f *fixture) { f.obs.Slots[1].Report.Leader = "db-2" },
		"nobody answers": func(f *fixture) {
			for i := range f.obs.Slots {
				f.obs.Slots[i].Report.Role, f.obs.Slots[i].Report.MemberReady = RoleFollower, false
				f.obs.Slots[i].Report.Health = Unhealthy
			}
		},
	} {
		for _, kind := range []string{"consul", "patroni"} {
			f := newFixture(3, kind).want("B")
			edit(f)
			p := f.plan()
			if got := executes(p); len(got) != 0 {
				t.Errorf("%s, %s: begins %v\n%s", kind, name, got, describe(p))
			}
			wantHeld(t, p, "db-2", HoldLeaderUnknown)
		}
	}
}

func TestR34_BrokenOnesAreFixedOneAtATimeWithoutALeader(t *testing.T) {
	f := newFixture(3, "consul").want("B").sick(1).sick(2)
	f.obs.Slots[0].Report.Role = RoleFollower
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-2")
	wantHeld(t, p, "db-1", HoldVoterCap)
	wantHeld(t, p, "db-0", HoldLeaderUnknown)
}

func TestR145_ASickClusterCanBeChanged(t *testing.T) {
	f := newFixture(3, "consul").at(0, "B").at(1, "B").at(2, "B").want("C")
	for i := range f.obs.Slots {
		f.sick(i)
	}
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-2")
	if p.Rollout.State != operation.Running || p.Generation != 2 {
		t.Errorf("state %s, generation %d", p.Rollout.State, p.Generation)
	}
}

func TestR145_AFirstMemberThatNeverCameUpCanBeChanged(t *testing.T) {
	f := newFixture(3, "consul").missing(1).missing(2).want("B")
	f.rec.Status.Stable = ""
	f.obs.Slots[0].Report.Role, f.obs.Slots[0].Report.MemberReady, f.obs.Slots[0].Report.Health = RoleFollower, false, Unhealthy
	f.rec.Slots[0].WasAvailableAt, f.rec.Slots[0].AvailableBoot, f.rec.Slots[0].AvailableSince = "", "", time.Time{}
	wantExecutes(t, f.plan(), "UPDATE db-0")
}

// TestR34_AMemberThatWaitsForALeaderMayBeNeeded: a new Boot of a member that was healthy before has a minute to find a
// leader. Once it was ready, it has unlimited time.
func TestR34_AMemberThatWaitsForALeaderMayBeNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture, r *group.SlotRecord)
		want condition
	}{
		"it boots":              {func(*fixture, *group.SlotRecord) {}, well},
		"it boots for a minute": {func(f *fixture, _ *group.SlotRecord) { f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-unwellFor) }, impaired},
		"it was ready in this Boot": {func(f *fixture, r *group.SlotRecord) {
			f.obs.Slots[1].Admission.AdmittedAt, r.AvailableBoot = f.now.Add(-time.Hour), "boot-db-1"
		}, well},
		"it was well at what it runs": {func(f *fixture, r *group.SlotRecord) {
			f.obs.Slots[1].Admission.AdmittedAt, r.WasAvailableAt = f.now.Add(-time.Hour), f.rec.Status.Target
		}, well},
		"it never was well": {func(_ *fixture, r *group.SlotRecord) { r.WasAvailableAt = "" }, impaired},
		"there is a leader": {func(f *fixture, _ *group.SlotRecord) { f.lead(0) }, impaired},
		"its process refuses for a minute": {func(f *fixture, r *group.SlotRecord) {
			f.obs.Slots[1].Report.Liveness, r.DownSince = LivenessRefused, f.now.Add(-unwellFor)
		}, processDown},
		"its process refuses for a moment": {func(f *fixture, r *group.SlotRecord) {
			f.obs.Slots[1].Report.Liveness, r.DownSince = LivenessRefused, f.now.Add(-unwellFor+time.Second)
		}, well},
		"its process gives no answer for a minute": {func(f *fixture, r *group.SlotRecord) {
			f.obs.Slots[1].Report.Liveness, r.DownSince = LivenessUnknown, f.now.Add(-unwellFor)
		}, impaired},
		"its process gives no answer, and a follower names it": {func(f *fixture, r *group.SlotRecord) {
			f.obs.Slots[1].Report.Liveness, r.DownSince = LivenessUnknown, f.now.Add(-unwellFor)
			f.obs.Slots[2].Report.Leader = "db-1"
		}, well},
		"its process gives no answer, and the leader sees it follow": {func(f *fixture, r *group.SlotRecord) {
			f.obs.Slots[1].Report.Liveness, r.DownSince = LivenessUnknown, f.now.Add(-unwellFor)
			f.lead(0)
			f.obs.Slots[0].Report.Followers = []string{"db-1"}
		}, impaired},
		"its process refuses, and the leader sees it follow": {func(f *fixture, r *group.SlotRecord) {
			f.obs.Slots[1].Report.Liveness, r.DownSince = LivenessRefused, f.now.Add(-unwellFor)
			f.lead(0)
			f.obs.Slots[0].Report.Followers = []string{"db-1"}
		}, impaired},
		"nobody tells of its admission": {func(f *fixture, _ *group.SlotRecord) { f.obs.Slots[1].Admission = nil }, notBooted},
	} {
		f := newFixture(3, "consul").want("B").rolling().at(1, "B")
		for i := range f.obs.Slots {
			f.obs.Slots[i].Report.Role, f.obs.Slots[i].Report.Leader = RoleFollower, ""
		}
		report, record := f.obs.Slots[1].Report, &f.rec.Slots[1]
		report.MemberReady, report.Health = false, Unhealthy
		f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-unwellFor + time.Second)
		record.WasAvailableAt, record.AvailableBoot, record.AvailableSince = revisionOf(f.spec, "A"), "boot-before", time.Time{}
		c.edit(f, record)
		if w := seenBy(f); w.find("db-1").condition != c.want {
			t.Errorf("%s: %d, want %d", name, w.find("db-1").condition, c.want)
		}
	}
}

func TestOrderedReadyCreatesOneAfterTheOther(t *testing.T) {
	f := newFixture(3, "none").missing(0).missing(1).missing(2)
	f.rec.Status, f.rec.Rollout = group.Status{}, nil
	p := f.plan()
	wantExecutes(t, p, "CREATE db-0")
	wantHeld(t, p, "db-1", HoldPredecessor)
	if p.Rollout.State != operation.Running || p.Stable != "" {
		t.Errorf("state %s, stable %q", p.Rollout.State, p.Stable)
	}
	f = newFixture(3, "consul").missing(1).missing(2)
	wantExecutes(t, f.plan(), "CREATE db-1")
	f.rec.Slots[0].AvailableSince = f.now.Add(-time.Second) // min_ready runs
	wantHeld(t, f.plan(), "db-1", HoldPredecessor)
}

func TestParallelCreatesAllButTheFirstAllotsTheApp(t *testing.T) {
	f := newFixture(3, "none").missing(0).missing(1).missing(2)
	f.spec.ManagementPolicy = group.Parallel
	wantExecutes(t, f.plan(), "CREATE db-0", "CREATE db-1", "CREATE db-2")
	f.spec.AppID = ""
	p := f.plan()
	wantExecutes(t, p, "CREATE db-0")
	wantHeld(t, p, "db-1", HoldAppID)
}

func TestR107_CreationsGoAFewAtATime(t *testing.T) {
	f := newFixture(5, "none").missing(1).missing(2).missing(3).missing(4)
	f.spec.ManagementPolicy, f.spec.UpdatePolicy.MaxCreating = group.Parallel, new(2)
	p := f.plan()
	wantExecutes(t, p, "CREATE db-1", "CREATE db-2")
	wantHeld(t, p, "db-3", HoldMaxCreating)
	f.rolling().op(1, operation.Booting, func(op *operation.Operation) { op.Kind = operation.Create })
	p = f.plan()
	wantExecutes(t, p, "CREATE db-2")
	wantHeld(t, p, "db-3", HoldMaxCreating)
	f.spec.UpdatePolicy.MaxCreating, f.spec.AppID = new(3), ""
	for i := range f.rec.Slots {
		f.rec.Slots[i].AppID = ""
	}
	for i := range f.obs.Slots {
		if f.obs.Slots[i].Instance != nil {
			f.obs.Slots[i].Instance.AppID = ""
		}
	}
	wantHeld(t, f.plan(), "db-2", HoldAppID) // the first one still comes alone
}

// The founders of a set become available together only.
func TestR107_FoundersAreCreatedTogether(t *testing.T) {
	f := newFixture(3, "etcd").missing(0).missing(1).missing(2)
	f.rec.Status, f.rec.Rollout = group.Status{}, nil
	f.spec.ManagementPolicy, f.spec.UpdatePolicy.MaxCreating = group.Parallel, new(1)
	wantExecutes(t, f.plan(), "CREATE db-0", "CREATE db-1", "CREATE db-2")
}

func TestANewSlotGetsTheProvenRevision(t *testing.T) {
	f := newFixture(3, "none").missing(2).want("B")
	if a := actionOf(t, f.plan(), "db-2"); a.Kind != operation.Create || a.To != revisionOf(f.spec, "A") {
		t.Errorf("before any slot proved it: %+v", a)
	}
	f.rolling().at(1, "B")
	if a := actionOf(t, f.plan(), "db-2"); a.To != revisionOf(f.spec, "B") {
		t.Errorf("after one did: %+v", a)
	}
}

func TestACreationTakesNothingAwayAndWaitsForNoStep(t *testing.T) {
	f := newFixture(4, "none").missing(3).want("B").rolling().op(1, operation.Booting, nil)
	f.spec.ManagementPolicy = group.Parallel
	wantExecutes(t, f.plan(), "CREATE db-3")
}

func TestOpportunisticUpdatesMoveOnlyRequestedSlots(t *testing.T) {
	f := newFixture(3, "none").want("B")
	f.spec.UpdatePolicy.Type = group.Opportunistic
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-2", HoldOpportunistic)
	if held := actionOf(t, p, "db-2").Holds[0].Message; !strings.Contains(held, "cadre instance update db-2") {
		t.Errorf("the hold names no way out: %s", held)
	}
	f.asksFor(RequestUpdate, "db-1", "q")
	wantExecutes(t, f.plan(), "UPDATE db-1")
}

// TestR31_ABootRefusedForItsRevisionIsBroken: a CVM that came up with another compose file proved its own fault. Its
// silence is explained, so the healing update does not wait for lost_after.
func TestR31_ABootRefusedForItsRevisionIsBroken(t *testing.T) {
	f := newFixture(3, "none").want("B")
	f.silent(1, f.now.Add(-time.Minute))
	s := f.obs.Slots[1]
	refusal := policy.Refusal{Slot: s.Slot, Code: policy.CodeRevisionNotAllowed, At: s.Admission.AdmittedAt.Add(-time.Second)}
	f.obs.Slots[1].Refusal = &refusal
	wantHeld(t, f.plan(), s.Slot, HoldUnknownHealth)
	refusal.At = s.Admission.AdmittedAt.Add(time.Second)
	wantExecutes(t, f.plan(), "UPDATE "+s.Slot)
	refusal.Code = policy.CodeQuoteInvalid
	wantHeld(t, f.plan(), s.Slot, HoldUnknownHealth)
}

// TestR11_AReportDoesNotOutliveItsBoot: the last report of a Boot loses its value when its instance ran another Boot.
// That is the case if a live Boot would have reported again by then.
func TestR11_AReportDoesNotOutliveItsBoot(t *testing.T) {
	f := newFixture(3, "none").want("B")
	s := &f.obs.Slots[1]
	s.Report.ReceivedAt = f.now.Add(-10 * time.Second)
	s.Refusal = &policy.Refusal{Slot: s.Slot, Code: policy.CodeRevisionNotAllowed, At: s.Report.ReceivedAt.Add(operation.LiveWithin)}
	if a := actionOf(t, f.plan(), s.Slot); a.Way.SkipDrain || a.Before.Unavailable {
		t.Errorf("a copy's refusal between two reports: %+v", a)
	}
	s.Refusal.At = s.Report.ReceivedAt.Add(operation.LiveWithin + time.Second)
	wantExecutes(t, f.plan(), "UPDATE "+s.Slot)
	if a := actionOf(t, f.plan(), s.Slot); !a.Way.SkipDrain || !a.Before.Unavailable {
		t.Errorf("the boot is gone: %+v", a)
	}
	if op := (operation.Operation{Slot: s.Slot, Kind: operation.Update}); !f.facts(op).Gone {
		t.Error("an open operation is not told that the boot is gone")
	}
}

// TestR104_ARemovalGoesBeforeAnUpdateThatCouldBeginAsWell: all members are up and idle, so both could begin. The
// removal begins, and the update waits for it.
func TestR104_ARemovalGoesBeforeAnUpdateThatCouldBeginAsWell(t *testing.T) {
	f := newFixture(4, "none")
	f.spec.Replicas = 3
	f.obs.DeleteDisks = []string{"db-3"}
	f.want("B")
	p := f.plan()
	wantExecutes(t, p, "DELETE db-3")
	for _, slot := range []string{"db-0", "db-1", "db-2"} {
		wantHeld(t, p, slot, HoldRemovalInProgress)
	}
	if p.Actions[0].Slot != "db-3" {
		t.Errorf("the removal is not the first: %s", describe(p))
	}
	// Without the removal each of the updates could begin.
	f.obs.DeleteDisks = nil
	wantExecutes(t, f.plan(), "UPDATE db-2")
}

// TestR10_AMemberWithoutAnAnswerYetIsNotBroken: an agent that just began to query its workload knows nothing about it.
// A member that may serve is updated within the budget.
func TestR10_AMemberWithoutAnAnswerYetIsNotBroken(t *testing.T) {
	f := newFixture(3, "patroni").want("B").rolling()
	none := 0
	one := 1
	f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.MaxSurgeFixed = &none, &one
	r := f.obs.Slots[1].Report
	r.MemberKnown, r.Liveness, r.MemberReady, r.CaughtUp, r.Health, r.HealthyFor = false, LivenessUnknown, false, nil, Unknown, 0
	p := f.plan()
	if a := actionOf(t, p, "db-1"); a.Execute || a.Class == ClassBroken {
		t.Errorf("%+v", a)
	}
	r.MemberKnown, r.Health = true, Unhealthy
	f.rec.Slots[1].DownSince = f.now.Add(-unwellFor)
	p = f.plan()
	if a := actionOf(t, p, "db-1"); !a.Execute || a.Class != ClassBroken {
		t.Errorf("its process is down: %+v", a)
	}
}

// TestR105_ARestartIsRefreshedAfterIt: a difference of the agent's work alone is refreshed after a restart ends, for
// any caller of that restart. A Boot that fails a check is refreshed at once, since the edit may correct the check.
func TestR105_ARestartIsRefreshedAfterIt(t *testing.T) {
	for name, c := range map[string]struct {
		phase  operation.Phase
		actor  operation.Actor
		change func(f *fixture)
		want   string
	}{
		"while it boots":                      {operation.Booting, operation.ActorHealing, func(f *fixture) { f.silent(1, f.now.Add(-time.Hour)) }, ""},
		"while it boots, by a person's word":  {operation.Booting, operation.ActorOperator, func(f *fixture) { f.silent(1, f.now.Add(-time.Hour)) }, ""},
		"while it settles":                    {operation.Settling, operation.ActorHealing, func(*fixture) {}, ""},
		"while the last boot's check is told": {operation.Booting, operation.ActorHealing, func(f *fixture) { f.failing(1, "ready") }, ""},
		"while its check fails":               {operation.Joining, operation.ActorHealing, func(f *fixture) { f.failing(1, "ready") }, "UPDATE db-1"},
		"while a hook after its boot holds it": {operation.Joining, operation.ActorOperator, func(f *fixture) {
			f.obs.Slots[1].Report.Steps = []StepReport{{Operation: "db-0-old.1.db-1", Verb: VerbPostLaunch, State: StepHeld}}
		}, "UPDATE db-1"},
		"the compose file changes, too": {operation.Booting, operation.ActorHealing, func(f *fixture) { f.want("B") }, "UPDATE db-1"},
	} {
		f := heals(3, "none")
		a := f.spec.Revision()
		r := f.rec.Revisions[a]
		r.AgentSpec = f.spec.AgentSpec()
		f.rec.Revisions[a] = r
		f.op(1, c.phase, func(op *operation.Operation) {
			op.ID, op.Rollout, op.Kind, op.Actor, op.From, op.To = "db-0-old.1.db-1", "", operation.Restart, c.actor, a, a
		})
		f.spec.HealthChecks = []group.HealthCheck{{Name: "live", TCP: &group.TCPCheck{Port: 81}}}
		f.spec.AutoHealing.HealthCheck = "live"
		f.rec.Status.Target, f.rec.Rollout = f.spec.Revision(), nil
		c.change(f)
		f.rolling()
		if got := strings.Join(executes(f.plan()), ", "); got != c.want {
			t.Errorf("%s: begins %q, want %q\n%s", name, got, c.want, describe(f.plan()))
		}
	}
}

// TestR132_ARefreshHandsNothingOver: the leader keeps leading, and no member is asked to drain.
func TestR132_ARefreshHandsNothingOver(t *testing.T) {
	f := heals(3, "patroni")
	a := f.spec.Revision()
	r := f.rec.Revisions[a]
	r.AgentSpec = f.spec.AgentSpec()
	f.rec.Revisions[a] = r
	f.spec.HealthChecks = []group.HealthCheck{{Name: "live", TCP: &group.TCPCheck{Port: 81}}}
	f.spec.AutoHealing.HealthCheck = "live"
	f.rec.Status.Target, f.rec.Rollout = f.spec.Revision(), nil
	f.rolling()
	if step := actionOf(t, f.plan(), "db-0"); step.Takes != group.ActionRefresh || step.Transfer != nil || step.Way.SkipDrain {
		t.Errorf("%+v", step)
	}
}

// TestR105_AStepIsFollowedByARefresh: an edit of checks alone never stops or reboots a member in a step.
func TestR105_AStepIsFollowedByARefresh(t *testing.T) {
	for name, c := range map[string]struct {
		kind   operation.Kind
		phase  operation.Phase
		change func(f *fixture, op *operation.Operation)
		takes  group.UpdateAction
	}{
		"an update boots":             {operation.Update, operation.Booting, func(f *fixture, _ *operation.Operation) { f.at(1, "A") }, group.ActionRestart},
		"an update settles":           {operation.Update, operation.Settling, func(*fixture, *operation.Operation) {}, ""},
		"a creation settles":          {operation.Create, operation.Settling, func(f *fixture, _ *operation.Operation) { f.rec.Status.Stable = f.rec.Rollout.To }, ""},
		"a replacement joins":         {operation.Replace, operation.Joining, func(*fixture, *operation.Operation) {}, ""},
		"an update is not ready":      {operation.Update, operation.Joining, func(f *fixture, _ *operation.Operation) { f.sick(1) }, group.ActionRefresh},
		"a check was not judged yet":  {operation.Update, operation.Joining, func(f *fixture, _ *operation.Operation) { f.pending(1) }, group.ActionRefresh},
		"it is ready":                 {operation.Update, operation.Joining, func(*fixture, *operation.Operation) {}, ""},
		"it is silent":                {operation.Update, operation.Joining, func(f *fixture, _ *operation.Operation) { f.silent(1, f.now) }, ""},
		"a creation is not ready":     {operation.Create, operation.Joining, func(f *fixture, _ *operation.Operation) { f.rec.Status.Stable = f.rec.Rollout.To; f.sick(1) }, ""},
		"its hooks are at work":       {operation.Update, operation.Joining, func(f *fixture, op *operation.Operation) { f.hooked(op, operation.StepRunning).sick(1) }, ""},
		"its hooks are done":          {operation.Update, operation.Joining, func(f *fixture, op *operation.Operation) { f.hooked(op, operation.StepDone).sick(1) }, group.ActionRefresh},
		"an update whose check fails": {operation.Update, operation.Joining, func(f *fixture, _ *operation.Operation) { f.failing(1, "ready") }, group.ActionRefresh},
		"a restart whose check fails": {operation.Restart, operation.Joining, func(f *fixture, _ *operation.Operation) { f.failing(1, "ready") }, group.ActionRefresh},
		"a hook holds it":             {operation.Update, operation.Joining, func(f *fixture, op *operation.Operation) { f.hooked(op, StepHeld).sick(1) }, group.ActionRestart},
		"a refresh settles":           {operation.Update, operation.Settling, func(_ *fixture, op *operation.Operation) { op.Way.Mode = operation.ModeRefresh }, group.ActionRefresh},
		"a refresh whose check fails": {operation.Update, operation.Joining, func(f *fixture, op *operation.Operation) { op.Way.Mode = operation.ModeRefresh; f.failing(1, "ready") }, group.ActionRefresh},
		"a refresh, and another hash": {operation.Update, operation.Settling, func(f *fixture, op *operation.Operation) {
			op.Way.Mode = operation.ModeRefresh
			f.obs.Slots[1].Instance.ComposeHash = hashOf("C")
		}, group.ActionRestart},
		"a refresh that is not proven": {operation.Update, operation.Booting, func(f *fixture, op *operation.Operation) {
			op.Way.Mode = operation.ModeRefresh
			op.From = f.spec.Revision()
		}, ""},
		"a refresh, and the compose":    {operation.Update, operation.Settling, func(f *fixture, op *operation.Operation) { op.Way.Mode = operation.ModeRefresh; f.want("C") }, group.ActionRestart},
		"an update, and it booted anew": {operation.Update, operation.Settling, func(f *fixture, _ *operation.Operation) { f.spec.RestartToken = "again" }, group.ActionRestart},
	} {
		f := newFixture(3, "none").want("B")
		b := f.spec.Revision()
		r := f.rec.Revisions[b]
		r.Template, r.AgentSpec = f.spec.Template, f.spec.AgentSpec()
		f.rec.Revisions[b] = r
		f.rolling().at(1, "B").op(1, c.phase, func(op *operation.Operation) { op.Kind = c.kind; c.change(f, op) })
		f.spec.HealthChecks = []group.HealthCheck{{Name: "live", TCP: &group.TCPCheck{Port: 81}}}
		f.rec.Revisions[f.spec.Revision()] = group.RevisionRecord{ComposeHash: hashOf("B")}
		f.rolling()
		var takes group.UpdateAction
		for _, a := range f.plan().Actions {
			if a.Retarget != nil {
				takes = a.Takes
			}
		}
		if takes != c.takes {
			t.Errorf("%s: takes %q, want %q\n%s", name, takes, c.takes, describe(f.plan()))
		}
	}
}

// pending marks a check of ordinal i as not judged yet.
func (f *fixture) pending(i int) *fixture {
	r := f.obs.Slots[i].Report
	r.Health, r.HealthReason, r.Pending = Unknown, "check ready: not judged yet", []string{"ready"}
	return f
}

// hooked gives the target of op a POST_LAUNCH hook, in the given state.
func (f *fixture) hooked(op *operation.Operation, state operation.StepState) *fixture {
	r := f.rec.Revisions[op.To]
	r.AgentSpec.LifecycleHooks = []group.LifecycleHook{{Name: "warm", Transition: group.PostLaunch, Wait: &group.WaitAction{}}}
	f.rec.Revisions[op.To] = r
	f.obs.Slots[1].Report.Steps = []StepReport{{Operation: op.ID, Verb: VerbPostLaunch, State: state}}
	return f
}

// TestR52_ACatchUpThatIsNotKnownMakesNoMemberBroken: a slow read says nothing about the data. The member is still not
// available.
func TestR52_ACatchUpThatIsNotKnownMakesNoMemberBroken(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		caughtUp *bool
		want     condition
	}{"not known": {nil, well}, "behind": {&no, impaired}} {
		f := newFixture(3, "etcd").want("B").rolling()
		f.obs.Slots[1].Report.CaughtUp = c.caughtUp
		w := seenBy(f)
		if m := w.find("db-1"); m.condition != c.want || m.ready {
			t.Errorf("%s: condition %v, ready %t, want %d and not ready", name, m.condition, m.ready, c.want)
		}
	}
}

// TestR103_ARequestByNamePassesTheHoldsOfTheRollout that concern its order and its consent. The holds that protect
// other members stay.
func TestR103_ARequestByNamePassesTheHoldsOfTheRollout(t *testing.T) {
	for predicate, c := range map[string]struct {
		edit func(f *fixture)
		// slot that the hold is about, and whether the request passes it
		slot   string
		passes bool
	}{
		HoldOpportunistic:       {func(f *fixture) { f.spec.UpdatePolicy.Type = group.Opportunistic }, "db-1", true},
		HoldPaused:              {func(f *fixture) { f.obs.Pause = &Override{} }, "db-1", true},
		HoldActionNotAllowed:    {func(f *fixture) { f.spec.UpdatePolicy.MostDisruptiveAllowedAction = group.ActionRefresh }, "db-1", true},
		HoldLeaderNeedsApproval: {func(f *fixture) { f.spec.UpdatePolicy.Leader = group.LeaderAsk; f.at(1, "B").at(2, "B") }, "db-0", true},
		HoldStepDelay: {func(f *fixture) {
			f.spec.UpdatePolicy.StepDelay = group.Duration(time.Hour)
			f.at(2, "B").op(2, operation.Done, nil)
		}, "db-1", true},
		HoldMaxUnavailable: {func(f *fixture) { f.sick(2) }, "db-1", false},
		HoldMayDisrupt:     {func(f *fixture) { f.obs.Slots[1].Report.MayDisrupt = false }, "db-1", false},
	} {
		f := newFixture(3, "patroni").recorded().want("B").rolling()
		c.edit(f)
		wantHeld(t, f.plan(), c.slot, predicate)
		a := actionOf(t, f.asksFor(RequestUpdate, c.slot, "q").plan(), c.slot)
		if a.Actor != operation.ActorOperator || a.HeldBy(predicate) == c.passes {
			t.Errorf("%s: a step of %s on request is held by %v", predicate, a.Actor, holdNames(a))
		}
		if PassedByName(predicate) != c.passes {
			t.Errorf("clients are told that a request passes %s: %t", predicate, !c.passes)
		}
	}
}
