package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

func drained(f *fixture, i int) operation.Operation {
	f.rolling().op(i, operation.Drained, nil)
	return f.rec.Operations[len(f.rec.Operations)-1]
}

// TestFactsNameTheImagesThatABootHasToPull: NewImages are the images that the previous text did not have.
func TestFactsNameTheImagesThatABootHasToPull(t *testing.T) {
	f := newFixture(3, "etcd")
	sum := "@sha256:" + strings.Repeat("ab", 32)
	text := func(web string) string {
		return "services:\n  db:\n    image: team/db" + sum + "\n  web:\n    image: team/" + web + sum + "\n  again:\n    image: team/" + web + sum + "\n"
	}
	before := f.rec.Status.Target
	f.rec.Revisions[before] = group.RevisionRecord{Digest: before, Template: group.Template{Compose: text("old")}}
	f.spec.Template.Compose = text("new")
	op := drained(f, 2)
	op.From = before
	if got := f.facts(op).NewImages; got != nil {
		t.Errorf("before the call: %v", got)
	}
	op.Phase = operation.Booting
	if got := f.facts(op).NewImages; !slices.Equal(got, []string{"team/new" + sum}) {
		t.Errorf("while it boots: %v", got)
	}
	op.Way.Mode = operation.ModeRefresh
	if got := f.facts(op).NewImages; got != nil {
		t.Errorf("without a boot: %v", got)
	}
}

func TestR50_QuorumIsCheckedAgainBeforeActing(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want string
	}{
		"all is well":            {func(*fixture) {}, ""},
		"another one fell":       {func(f *fixture) { f.sick(1) }, HoldMaxUnavailable},
		"with budget for two":    {func(f *fixture) { f.sick(1); f.spec.UpdatePolicy.MaxUnavailableFixed = intp(2) }, HoldQuorum},
		"it leads now":           {func(f *fixture) { f.lead(2) }, HoldLeaderUnknown},
		"no coordinator leads":   {func(f *fixture) { f.obs.Slots[0].Report.Role = RoleFollower }, HoldLeaderUnknown},
		"voters disagree":        {func(f *fixture) { f.obs.Slots[1].Report.Voters = []string{"db-1"} }, HoldQuorumUnknown},
		"the workload says no":   {func(f *fixture) { f.obs.Slots[2].Report.MayDisrupt = false }, HoldMayDisrupt},
		"a source was silent":    {func(f *fixture) { f.blind("the platform") }, "the platform"},
		"the observation is old": {func(f *fixture) { f.obs.At = f.now.Add(-time.Minute) }, "old"},
	} {
		f := newFixture(3, "consul").want("B")
		op := drained(f, 2)
		c.edit(f)
		facts := f.facts(op)
		if facts.Safe != (c.want == "") || !strings.Contains(facts.SafeReason, c.want) {
			t.Errorf("%s: safe %t %q, want %q", name, facts.Safe, facts.SafeReason, c.want)
		}
	}
}

func TestR50_ADrainedMemberIsNotCountedAgainstItself(t *testing.T) {
	f := newFixture(3, "consul").want("B")
	op := drained(f, 2)
	f.sick(2) // it has stopped serving
	if facts := f.facts(op); !facts.Safe || !facts.NotServing {
		t.Errorf("safe %t %q, not serving %t", facts.Safe, facts.SafeReason, facts.NotServing)
	}
}

func TestR21_TheSecondLookAsksTheBudgetOfAStepThatGrewU(t *testing.T) {
	f := newFixture(3, "patroni").want("B")
	op := drained(f, 2)
	f.lagging(2, 10) // right after a leadership transfer neither the old leader
	f.lagging(1, 10) // nor another follower has caught up
	if facts := f.facts(op); facts.Safe || !strings.Contains(facts.SafeReason, HoldMaxUnavailable) {
		t.Errorf("safe %t %q", facts.Safe, facts.SafeReason)
	}
	op.Before.Unavailable = true
	if facts := f.facts(op); !facts.Safe {
		t.Errorf("not safe: %s", facts.SafeReason)
	}
}

func TestR45_AMemberOutsideTheQuorumNeedsNoSecondMajority(t *testing.T) {
	f := newFixture(3, "consul").want("B").sick(1).sick(2)
	op := drained(f, 2)
	op.Way.SkipDrain, op.Before.Unavailable = true, true
	f.rec.Operations[0] = op
	if facts := f.facts(op); !facts.Safe {
		t.Errorf("not safe: %s", facts.SafeReason)
	}
}

func TestR82_FactsSayWhenAnOperationIsNotWanted(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want string
	}{
		"wanted":              {func(*fixture) {}, ""},
		"the spec moved on":   {func(f *fixture) { f.want("C") }, "moved on"},
		"it is there already": {func(f *fixture) { f.at(2, "B") }, "not outdated"},
		"below the partition": {func(f *fixture) { f.spec.UpdatePolicy.Partition = 3 }, "not outdated"},
		"scaled in":           {func(f *fixture) { f.spec.Replicas = 2 }, "scaled in"},
		"another step failed": {func(f *fixture) { f.op(1, operation.Failed, nil).sick(1) }, "failed"},
	} {
		f := newFixture(3, "none").want("B")
		op := drained(f, 2)
		c.edit(f)
		got := f.facts(op).Unwanted
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: unwanted %q, want %q", name, got, c.want)
		}
	}
}

// TestR82_ARequestedStepIsWantedAtAnyRevision: a requested restart or replacement keeps its Revision, even after a
// change of the spec.
func TestR82_ARequestedStepIsWantedAtAnyRevision(t *testing.T) {
	for _, kind := range []operation.Kind{operation.Restart, operation.Replace} {
		f := newFixture(3, "none").want("B")
		op := drained(f, 2)
		op.Kind, op.Actor, op.Request.ID, op.Rollout = kind, operation.ActorOperator, "q", ""
		op.To = revisionOf(f.spec, "A")
		if got := f.facts(op).Unwanted; got != "" {
			t.Errorf("%s: unwanted: %s", kind, got)
		}
	}
}

func TestR82_AMemberThatCameBackIsNotStoppedUndrained(t *testing.T) {
	f := newFixture(3, "consul").want("B").rolling().op(2, operation.Drained, func(op *operation.Operation) { op.Way.SkipDrain, op.Before.Unavailable = true, true })
	if got := f.facts(f.rec.Operations[0]).Unwanted; !strings.Contains(got, "came back") {
		t.Errorf("unwanted %q", got)
	}
	f.sick(2)
	if got := f.facts(f.rec.Operations[0]); got.Unwanted != "" || !got.Safe {
		t.Errorf("unwanted %q, not safe: %s", got.Unwanted, got.SafeReason)
	}
}

func TestR103_ARetryIsNotCalledOffByTheFailureThatItRetries(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().op(2, operation.Failed, nil).sick(2)
	f.op(2, operation.Draining, func(op *operation.Operation) { op.Attempt = 2 })
	if got := f.facts(f.rec.Operations[1]).Unwanted; got != "" {
		t.Errorf("unwanted: %s", got)
	}
}

func TestFactsOfTheSwitches(t *testing.T) {
	f := newFixture(3, "none").want("B")
	op := drained(f, 2)
	for _, edit := range []func(*fixture){func(f *fixture) { f.obs.Pause = &Override{} }, func(f *fixture) { f.obs.Freeze = &Override{} }} {
		g := *f
		edit(&g)
		if !g.facts(op).Paused {
			t.Error("not paused")
		}
	}
	create := op
	create.Kind = operation.Create
	f.obs.Pause = &Override{}
	if f.facts(create).Paused {
		t.Error("a scale-out is paused")
	}
}

func TestFactsCarryTheObservation(t *testing.T) {
	f := newFixture(3, "consul").want("B")
	op := drained(f, 2)
	f.spec.LifecycleHooks = []group.LifecycleHook{{Name: "later", Transition: group.PreTerminate, Wait: &group.WaitAction{}}}
	for revision, hook := range map[string]group.LifecycleHook{
		op.To:   {Name: "warm", Transition: group.PostLaunch, Wait: &group.WaitAction{}},
		op.From: {Name: "drain", Transition: group.PreTerminate, Wait: &group.WaitAction{}, MaxDuration: group.Duration(time.Minute)},
	} {
		record := f.rec.Revisions[revision]
		record.AgentSpec.LifecycleHooks = []group.LifecycleHook{hook}
		f.rec.Revisions[revision] = record
	}
	f.obs.Slots[2].Report.Steps = []StepReport{{Operation: op.ID, Verb: VerbDrain, Attempt: 1, State: StepDone}}
	got := f.facts(op)
	if got.WantedHash != hashOf("B") || got.Platform.VMUUID != "vm-db-2" || got.Admission.BootID != "boot-db-2" || len(got.Steps) != 1 ||
		!got.PostLaunch || got.LastReportOf != "boot-db-2" || !got.ReadySince.Equal(epoch) || !got.PlatformKnown {
		t.Errorf("facts %+v", got)
	}
	// The hooks of the running Revision drain the member. The hooks of the next Revision launch it.
	if got.Limits.Drain != 3*time.Minute {
		t.Errorf("time to drain %s", got.Limits.Drain)
	}
	if got.Limits.MinReady != 30*time.Second || got.Limits.Healthy != 10*time.Minute || got.Limits.Settle != 10*time.Second {
		t.Errorf("limits %+v", got.Limits)
	}
	f.obs.Slots[2].Report.ReceivedAt = f.now.Add(-time.Minute)
	if got = f.facts(op); len(got.Steps) != 0 || !got.ReadySince.IsZero() {
		t.Error("a stale report still counts")
	}
}

func TestR46_RemovalIsCheckedAgain(t *testing.T) {
	f := newFixture(4, "patroni")
	f.spec.Replicas, f.obs.DeleteDisks = 3, []string{"db-3"}
	f.rolling().op(3, operation.Drained, func(op *operation.Operation) { op.Kind = operation.Delete })
	if facts := f.facts(f.rec.Operations[0]); !facts.Safe {
		t.Errorf("not safe: %s", facts.SafeReason)
	}
	f.obs.Slots[3].Report.MayDisrupt = false
	if facts := f.facts(f.rec.Operations[0]); facts.Safe {
		t.Error("safe though the workload says no")
	}
	f.obs.Slots[3].Report.MayDisrupt, f.obs.DeleteDisks = true, nil
	if facts := f.facts(f.rec.Operations[0]); facts.Safe {
		t.Error("safe though nobody gives the disk up any more")
	}
}

// A disk that the spec preserves during the drain stays: only the present spec can allow the deletion.
func TestOPS03_ADiskThatIsPreservedMeanwhileStays(t *testing.T) {
	f := newFixture(4, "none")
	f.spec.Replicas = 3
	f.obs.DeleteDisks = []string{"db-3"}
	f.rolling().op(3, operation.Drained, func(op *operation.Operation) { op.Kind = operation.Delete })
	if facts := f.facts(f.rec.Operations[0]); facts.Unwanted != "" || !facts.Safe {
		t.Errorf("not wanted: %s, or not safe: %s", facts.Unwanted, facts.SafeReason)
	}
	f.spec.PreservedState.Disk = "data"
	if facts := f.facts(f.rec.Operations[0]); facts.Safe || !strings.Contains(facts.SafeReason, `"data"`) {
		t.Errorf("safe though the disk is preserved: %q", facts.SafeReason)
	}
}

// TestR139_TheFactsOfADrainSayWhomToHandOverTo: a member that is drained hands leadership over, and keeps it where
// no member can take it.
func TestR139_TheFactsOfADrainSayWhomToHandOverTo(t *testing.T) {
	drain := func(op *operation.Operation) { op.Kind = operation.Drain }
	for name, c := range map[string]struct {
		f    *fixture
		slot int
		edit func(*operation.Operation)
		want []string
	}{
		"it leads":              {newFixture(3, "patroni"), 0, drain, []string{"db-1", "db-2"}},
		"another one leads":     {newFixture(3, "patroni"), 1, drain, nil},
		"an update has its own": {newFixture(3, "patroni"), 0, nil, nil},
	} {
		f := c.f.want("B").rolling().op(c.slot, operation.Draining, c.edit)
		got := f.facts(f.rec.Operations[0]).HandOver
		switch {
		case c.want == nil && got != nil:
			t.Errorf("%s: it hands over to %v", name, got.Candidates)
		case c.want != nil && (got == nil || !slices.Equal(slices.Sorted(slices.Values(got.Candidates)), c.want)):
			t.Errorf("%s: it hands over by %+v, want to %v", name, got, c.want)
		}
	}
}

// TestAMemberThatCannotElectIsNoVoter: in a workload without voters of its own, a member that cannot lead or elect is
// no voter.
func TestAMemberThatCannotElectIsNoVoter(t *testing.T) {
	for role, want := range map[Role]bool{RoleFollower: true, RoleLeader: true, RoleLearner: false, RoleNone: false} {
		f := newFixture(3, "patroni")
		f.obs.Slots[2].Report.Role = role
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		if got := w.voter(w.find("db-2")); got != want {
			t.Errorf("a member that is %s counts as a voter: %t", role, got)
		}
	}
}

// The health in a report says nothing about checks that the agent does not use yet, or that have no verdict yet. An
// older agent reports neither.
func TestAReportNamesTheChecksThatItsHealthLacks(t *testing.T) {
	f := newFixture(1, "none").want("B")
	to := f.spec.Revision()
	op := operation.Operation{Slot: "db-0", Kind: operation.Update, Way: operation.Way{Mode: operation.ModeRefresh}, To: to}
	for name, c := range map[string]struct {
		agentSpec string
		pending   []string
		want      string
	}{
		"an older agent":         {"", nil, ""},
		"those of before":        {"another", nil, "its agent does not go by the revision's hooks and checks yet"},
		"one has no verdict":     {to, []string{"b", "c"}, "check b was not judged yet"},
		"all have their verdict": {to, nil, ""},
	} {
		r := f.obs.Slots[0].Report
		r.AgentSpec, r.Pending = c.agentSpec, c.pending
		got := f.facts(op)
		if got.Unjudged != c.want || got.ReadySince.IsZero() {
			t.Errorf("%s: %q, want %q; available since %s", name, got.Unjudged, c.want, got.ReadySince)
		}
	}
}

// A refresh runs no hook, so its deadline has no time for hooks. A refresh that cannot be prepared is cancelled
// after the time of a step without hooks.
func TestR79_ARefreshWaitsForNoHooks(t *testing.T) {
	f := newFixture(3, "consul").want("B")
	f.spec.LifecycleHooks = []group.LifecycleHook{{Name: "long", Transition: group.PreTerminate, MaxDuration: group.Duration(time.Hour)}}
	for mode, want := range map[operation.Mode]time.Duration{operation.ModeBoot: time.Hour + 2*time.Minute, operation.ModeRefresh: 2 * time.Minute} {
		op := operation.Operation{Slot: "db-1", Kind: operation.Update, Way: operation.Way{Mode: mode}}
		if got := f.facts(op).Limits.Drain; got != want {
			t.Errorf("mode %q: waits %s, want %s", mode, got, want)
		}
	}
}

// After the deletion of the old CVM, a replacement has only its creation left. The creation takes nothing away,
// regardless of other members' outages and of the members that ended with the CVM.
func TestR50_AReplacementAfterItsDeletionTakesNothingMoreAway(t *testing.T) {
	for _, kind := range []string{"none", "patroni", "consul"} {
		for name, c := range map[string]struct {
			edit func(f *fixture, op *operation.Operation)
			safe bool
		}{
			"by an operator":        {func(*fixture, *operation.Operation) {}, true},
			"by healing":            {func(_ *fixture, op *operation.Operation) { op.Actor, op.Request.ID = operation.ActorHealing, "" }, true},
			"it is not deleted yet": {func(f *fixture, op *operation.Operation) { op.Call.Applied, op.CVM.VMUUID = nil, "vm-db-3" }, false},
			"the listing is silent": {func(f *fixture, _ *operation.Operation) { f.blind("no answer") }, false},
		} {
			f := heals(4, kind)
			if kind == "consul" {
				f.joiner(3)
			}
			f.rec.Slots[3] = f.rec.Slots[3].Unbound("replaced", f.now)
			f.obs.Slots[3].Instance, f.obs.Slots[3].Report = nil, nil
			f.silent(2, f.now.Add(-10*time.Minute))
			f.op(3, operation.Drained, func(op *operation.Operation) {
				op.Kind, op.Actor, op.Request.ID, op.Rollout, op.CVM.VMUUID = operation.Replace, operation.ActorOperator, "q", "", ""
				op.Call.Applied = []operation.Part{operation.PartDelete}
				c.edit(f, op)
			})
			if facts := f.facts(f.rec.Operations[0]); facts.Safe != c.safe {
				t.Errorf("%s, %s: safe %t: %s", kind, name, facts.Safe, facts.SafeReason)
			}
		}
	}
}

// The way out that the reason of a held drain names does cancel the drain.
func TestR80_TheWayOutOfADrainThatAHookHolds(t *testing.T) {
	ill := func(f *fixture, op *operation.Operation) { f.failing(2, "ready"); op.Before.Unavailable = true }
	for name, c := range map[string]struct {
		kind  operation.Kind
		actor operation.Actor
		edit  func(f *fixture, op *operation.Operation)
		told  string
		does  func(f *fixture)
	}{
		"a step of the rollout": {operation.Update, operation.ActorRollout, nil, "pause the group", func(f *fixture) { f.obs.Pause = &Override{} }},
		"a removal": {operation.Delete, operation.ActorScaling, func(f *fixture, _ *operation.Operation) {
			f.spec.Replicas, f.obs.DeleteDisks = 2, []string{"db-2"}
		}, "pause the group", func(f *fixture) { f.obs.Pause = &Override{} }},
		"a removal with its group": {operation.Delete, operation.ActorScaling, func(f *fixture, _ *operation.Operation) { f.obs.Deletion = &Deletion{} },
			"cadre group delete db --cancel", func(f *fixture) { f.obs.Deletion = nil }},
		"a restart that heals":   {operation.Restart, operation.ActorHealing, ill, "cadre freeze db", func(f *fixture) { f.obs.Freeze = &Override{} }},
		"a restart by name":      {operation.Restart, operation.ActorOperator, nil, "cadre instance protect db-2", func(f *fixture) { f.obs.Slots[2].Protection = &Override{} }},
		"one of what is ill":     {operation.Restart, operation.ActorOperator, ill, "cadre freeze db", func(f *fixture) { f.obs.Freeze = &Override{} }},
		"a replacement by name":  {operation.Replace, operation.ActorOperator, nil, "cadre instance protect db-2", func(f *fixture) { f.obs.Slots[2].Protection = &Override{} }},
		"a drain by an operator": {operation.Drain, operation.ActorOperator, nil, "cadre instance undrain db-2", func(f *fixture) { f.obs.Slots[2].Drain = nil }},
	} {
		f := heals(3, "none")
		if c.kind == operation.Update {
			f.want("B")
		}
		f.rolling()
		if c.kind == operation.Drain {
			f.obs.Slots[2].Drain = &Override{}
		}
		f.op(2, operation.Draining, func(op *operation.Operation) {
			op.Kind, op.Actor = c.kind, c.actor
			if c.actor == operation.ActorOperator {
				op.Request.ID = "q"
			}
			if c.kind == operation.Restart {
				op.To = op.From
			}
			if c.edit != nil {
				c.edit(f, op)
			}
		})
		f.obs.Slots[2].Report.Steps = []StepReport{{Operation: f.rec.Operations[0].ID, Verb: VerbDrain, Attempt: 1, State: StepHeld}}
		op, _ := operation.Advance(f.rec.Operations[0], f.facts(f.rec.Operations[0]), f.now)
		if op.Phase != operation.Draining || !strings.Contains(op.Reason, c.told) {
			t.Errorf("%s: %s, told %q", name, op.Phase, op.Reason)
		}
		c.does(f)
		if op, _ = operation.Advance(f.rec.Operations[0], f.facts(f.rec.Operations[0]), f.now); op.Phase != operation.Aborted {
			t.Errorf("%s: and then %s: %s", name, op.Phase, op.Reason)
		}
	}
}

// TestR89_AFailedStepRepeatsTheLastMessageOfItsMember: the driver's message is the reason while the member reports. The
// message stays in the reason when the member falls silent. A message of another Boot does not count.
func TestR89_AFailedStepRepeatsTheLastMessageOfItsMember(t *testing.T) {
	const word = "the data is of a newer version"
	for name, c := range map[string]struct {
		edit func(r *Report)
		want bool
	}{
		"it is not ready":          {func(r *Report) { r.MemberReady = false }, true},
		"it is down":               {func(r *Report) { r.Liveness = LivenessRefused }, true},
		"it fell silent":           {func(r *Report) { r.ReceivedAt = r.ReceivedAt.Add(-time.Minute) }, true},
		"its boot before was said": {func(r *Report) { r.BootID = "before" }, false},
	} {
		f := newFixture(3, "etcd").want("B").at(2, "B").rolling()
		f.obs.Slots[2].Report.Message = word
		c.edit(f.obs.Slots[2].Report)
		f.op(2, operation.Joining, func(op *operation.Operation) { op.Times.HealthyBy, op.Before.BootID = f.now, "before" })
		op := f.rec.Operations[0]
		op, _ = operation.Advance(op, f.facts(op), f.now)
		if op.Phase != operation.Failed || strings.Contains(op.Reason, word) != c.want {
			t.Errorf("%s: %s: %s", name, op.Phase, op.Reason)
		}
	}
}

// TestR82_ALostCVMThatReturnsIsNotReplaced: the replacement was requested while no listing had the CVM. Once the old
// CVM made way, a listed CVM is the new one.
func TestR82_ALostCVMThatReturnsIsNotReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture, op *operation.Operation)
		off  bool
	}{
		"it returns":                {func(*fixture, *operation.Operation) {}, true},
		"it is still lost":          {func(f *fixture, _ *operation.Operation) { f.obs.Slots[1].Instance = nil }, false},
		"the request names its CVM": {func(_ *fixture, op *operation.Operation) { op.CVM.VMUUID = "vm-db-1" }, false},
		"the old one made way":      {func(_ *fixture, op *operation.Operation) { op.Call.Applied = []operation.Part{operation.PartDelete} }, false},
	} {
		f := newFixture(3, "none").op(1, operation.Draining, func(op *operation.Operation) {
			op.Kind, op.Actor, op.Rollout, op.To, op.CVM = operation.Replace, operation.ActorOperator, "", op.From, operation.CVM{InstanceID: "i-db-1"}
		})
		c.edit(f, &f.rec.Operations[0])
		got := f.facts(f.rec.Operations[0]).Unwanted
		if strings.Contains(got, "ask again to replace it") != c.off {
			t.Errorf("%s: unwanted %q", name, got)
		}
	}
}
