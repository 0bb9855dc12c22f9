package rollout

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// heals is a settled group whose spec heals, with a check that healing goes by.
func heals(n int, kind string) *fixture {
	f := newFixture(n, kind)
	f.spec.HealthChecks = []group.HealthCheck{{Name: "ready", TCP: &group.TCPCheck{Port: 80}}}
	f.spec.AutoHealing = &group.AutoHealing{HealthCheck: "ready"}
	f.rec.Status.Target = f.spec.Revision()
	return settle(f)
}

// settle names what everybody runs after the checks, which are part of the Revision.
func settle(f *fixture) *fixture {
	a := f.spec.Revision()
	f.rec.Revisions[a] = group.RevisionRecord{Digest: a, ComposeHash: hashOf("A"), Template: f.spec.Template}
	f.rec.Status.Target, f.rec.Status.Stable, f.rec.Rollout.To = a, a, a
	for i := range f.rec.Slots {
		f.rec.Slots[i].Assigned, f.rec.Slots[i].WasAvailableAt = a, a
		f.obs.Slots[i].Admission.Revision = a
	}
	return f
}

// failing makes the check of ordinal i fail.
func (f *fixture) failing(i int, check string) *fixture {
	r := f.obs.Slots[i].Report
	r.Health, r.HealthReason, r.Failing = Unhealthy, "check "+check+": no", []string{check}
	return f
}

// gone takes the CVM of ordinal i out of the listing, since some time.
func (f *fixture) gone(i int, since time.Duration) *fixture {
	f.obs.Slots[i].Instance, f.obs.Slots[i].Report = nil, nil
	f.rec.Slots[i].MissedSince = f.now.Add(-since)
	return f
}

// tried notes attempts to heal ordinal i, the last one some time ago.
func (f *fixture) tried(i, n int, ago time.Duration) *fixture {
	f.rec.Slots[i].Heals = &group.Heals{Attempts: n, LastAt: f.now.Add(-ago), LastKind: "RESTART", LastWhy: "it was down"}
	return f
}

// TestR112_WhatBreaksByItselfIsRestarted at its own Revision, on behalf of healing, and
// the rollout neither does it nor is judged by it.
func TestR112_WhatBreaksByItselfIsRestarted(t *testing.T) {
	for name, breaks := range map[string]func(f *fixture){
		"its CVM stopped":     func(f *fixture) { f.stopped(1) },
		"it does not boot":    func(f *fixture) { f.obs.Slots[1].Instance.BootError = "no disk"; f.obs.Slots[1].Report = nil },
		"its check fails":     func(f *fixture) { f.failing(1, "ready") },
		"its agent is silent": func(f *fixture) { f.silent(1, f.now.Add(-6*time.Minute)) },
		"in a pause too":      func(f *fixture) { f.stopped(1); f.obs.Paused = true },
	} {
		f := heals(3, "none")
		breaks(f)
		p := f.plan()
		wantExecutes(t, p, "RESTART db-1")
		a := actionOf(t, p, "db-1")
		if a.Actor != operation.ActorHealing || a.To != f.spec.Revision() || a.Note == "" || !strings.HasPrefix(a.Why, "heals: ") {
			t.Errorf("%s: %+v", name, a)
		}
		op, ok := p.Begin(a, 3, f.now)
		if !ok || op.Rollout != "" || op.Actor != operation.ActorHealing {
			t.Errorf("%s: %t %+v", name, ok, op)
		}
		if h := p.Slots[1].Heals; h == nil || h.Attempts != 1 || !h.LastAt.Equal(f.now) || h.LastWhy != a.Note {
			t.Errorf("%s: attempts %+v", name, h)
		}
		if p.Rollout.State != operation.Complete {
			t.Errorf("%s: the rollout is %s", name, p.Rollout.State)
		}
	}
}

// TestR112_WhatIsNotHealingsBusinessIsLeft: without the block nothing is, and what an
// update brings, what never worked, and what somebody excluded.
func TestR112_WhatIsNotHealingsBusinessIsLeft(t *testing.T) {
	for name, edit := range map[string]func(f *fixture){
		"no block":                     func(f *fixture) { f.spec.AutoHealing = nil },
		"not that failure":             func(f *fixture) { f.spec.RestartPolicy.On = []string{group.OnUnhealthy} },
		"excluded":                     func(f *fixture) { f.spec.Instances = []group.InstanceSettings{{Ordinal: 1, ExcludeFromHealing: true}} },
		"never available at it (R99)":  func(f *fixture) { f.rec.Slots[1].WasAvailableAt = revisionOf(f.spec, "C") },
		"frozen":                       func(f *fixture) { f.obs.Frozen = true },
		"the platform is busy with it": func(f *fixture) { f.obs.Slots[1].Instance.InProgress = true },
		"not listed, and unknown":      func(f *fixture) { f.obs.Slots[1].Instance = nil; f.blind("no answer") },
	} {
		f := heals(3, "none").stopped(1)
		edit(f)
		if p := f.plan(); len(executes(p)) > 0 {
			t.Errorf("%s: begins %v", name, executes(p))
		}
	}
	f := heals(3, "none").stopped(1).want("B")
	wantExecutes(t, f.plan(), "UPDATE db-1")
}

// TestR113_NothingCountsRightAfterABoot, and R114: another check than the one that
// healing goes by is readiness for traffic.
func TestR113_NothingCountsRightAfterABoot(t *testing.T) {
	f := heals(3, "none").failing(1, "ready")
	f.rec.Slots[1].AvailableBoot = "the one before"
	f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-group.DefaultInitialDelay + time.Second)
	p := f.plan()
	wantExecutes(t, p)
	if want := f.now.Add(time.Second); p.Clock.After(want) || p.Clock.IsZero() {
		t.Errorf("looks again at %s, want %s", p.Clock, want)
	}
	f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-group.DefaultInitialDelay)
	wantExecutes(t, f.plan(), "RESTART db-1")
	wantExecutes(t, heals(3, "none").failing(1, "traffic").plan())
}

// TestR113_TheFirstHealthEndsTheGrace of a Boot, and of no other one. Which Boot that was outlasts the pass that
// sees the member broken, since healing may have to wait.
func TestR113_TheFirstHealthEndsTheGrace(t *testing.T) {
	f := heals(3, "none")
	f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-time.Minute)
	f.rec.Slots[1].AvailableBoot = ""
	f.rec.Slots[1] = f.plan().Slots[1] // it is ready
	f.failing(1, "ready")
	p := f.plan()
	wantExecutes(t, p, "RESTART db-1")
	f.rec.Slots[1] = p.Slots[1]
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.obs.Slots[1].Admission.BootID, f.obs.Slots[1].Report.BootID = "the next one", "the next one"
	wantExecutes(t, f.plan())

	f = heals(3, "patroni").sick(1) // its process is down: that waits for its supervisor all the same
	f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-2 * time.Minute)
	p = f.plan()
	wantExecutes(t, p)
	f.rec.Slots[1] = p.Slots[1]
	f.rec.Slots[1].DownSince = f.now.Add(-unwellFor)
	wantExecutes(t, f.plan(), "RESTART db-1")
}

// TestR34_AMemberThatMerelyHasNoLeaderIsNotHealed, and a process that is down is, after
// its own supervisor had its time.
func TestR34_AMemberThatMerelyHasNoLeaderIsNotHealed(t *testing.T) {
	f := heals(3, "patroni").failing(1, "ready")
	f.stopped(0)
	f.spec.RestartPolicy.On = []string{group.OnUnhealthy}
	wantExecutes(t, f.plan())
	f = heals(3, "patroni").sick(1)
	f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
	p := f.plan()
	wantExecutes(t, p) // down since now, whatever ailed it before
	if !p.Slots[1].DownSince.Equal(f.now) {
		t.Fatalf("down since %s", p.Slots[1].DownSince)
	}
	f.rec.Slots[1].DownSince = f.now.Add(-unwellFor)
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.obs.Slots[1].Report.Health = Unknown
	wantExecutes(t, f.plan()) // the driver has not answered (R10)
}

// TestR127_ADeadLeaderIsStartedAtOnce: its last report says for a while that it leads, and
// there is nobody who could drain.
func TestR127_ADeadLeaderIsStartedAtOnce(t *testing.T) {
	f := heals(3, "patroni")
	f.obs.Slots[0].Instance.Status = "stopped"
	wantExecutes(t, f.plan()) // it spoke a moment ago: the listing may be wrong
	f.obs.Slots[0].Report.ReceivedAt = f.now.Add(-liveWithin)
	wantExecutes(t, f.plan(), "RESTART db-0")
	f.obs.Slots[0].Report.ReceivedAt = f.now.Add(-time.Second)
	f.obs.Slots[0].Report.CutAt = f.obs.At.Add(time.Millisecond)
	wantExecutes(t, f.plan()) // its connection ended, and the listing is older than that
	f.obs.Slots[0].Report.CutAt = f.obs.At
	p := f.plan()
	wantExecutes(t, p, "RESTART db-0")
	a := actionOf(t, p, "db-0")
	if !a.SkipDrain || a.Transfer != nil {
		t.Errorf("skip_drain %t, hands over by %+v", a.SkipDrain, a.Transfer)
	}
	op, _ := p.Begin(a, 3, f.now)
	op.Phase = operation.Drained
	f.rec.Operations = append(f.rec.Operations, op)
	if facts := f.facts(op); !facts.Safe || facts.Unwanted != "" {
		t.Errorf("unsafe: %q, unwanted: %q", facts.SafeReason, facts.Unwanted)
	}
}

// TestR118_AttemptsWaitLongerAndEnd: doubled waits, then quarantine; a whole window of
// health, or an operator, forgets them.
// TestR118_AWindowOfHealthCountsThoughNobodyLooked: the pass that sees m broken may be the first one
// after the window's end.
func TestR118_AWindowOfHealthCountsThoughNobodyLooked(t *testing.T) {
	for name, c := range map[string]struct {
		lasted  time.Duration
		boot    string
		forgets bool
	}{
		"a whole window":           {time.Hour, "", true},
		"less":                     {time.Hour - time.Second, "", false},
		"the word of another boot": {time.Hour, "another", false},
	} {
		f := heals(3, "none").tried(1, 5, 2*time.Hour)
		last := f.obs.Slots[1].Report.ReceivedAt
		f.rec.Slots[1].AvailableSince = last.Add(-c.lasted)
		f.rec.Slots[1].AvailableBoot = cmp.Or(c.boot, f.obs.Slots[1].Report.BootID)
		f.sick(1)
		p := f.plan()
		if s := p.Slots[1]; !s.AvailableSince.IsZero() || (s.Heals == nil) != c.forgets {
			t.Errorf("%s: available since %s, %+v", name, s.AvailableSince, s.Heals)
		}
	}
}

func TestR118_AttemptsWaitLongerAndEnd(t *testing.T) {
	f := heals(3, "none").stopped(1).tried(1, 2, 59*time.Second)
	p := f.plan()
	wantHeld(t, p, "db-1", HoldHealDeferred)
	f.tried(1, 2, time.Minute)
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.tried(1, 5, time.Hour)
	wantExecutes(t, f.plan(), "RESTART db-1") // what is down is started twice as often
	f.tried(1, 10, time.Hour)
	p = f.plan()
	wantHeld(t, p, "db-1", HoldQuarantined)
	if s := p.Status.Instances[1]; s.State != "Quarantined" || s.Heals == nil || s.Heals.Attempts != 10 {
		t.Errorf("%+v", s)
	}
	told := false
	for _, c := range p.Status.Conditions {
		told = told || c.Type == ConditionQuarantined && strings.Contains(c.Message, "db-1")
	}
	if !told {
		t.Errorf("no condition names db-1: %+v", p.Status.Conditions)
	}
	p = f.asks("db-1", "r").plan()
	wantExecutes(t, p, "RESTART db-1")
	if _, ok := p.Begin(actionOf(t, p, "db-1"), 3, f.now); !ok || p.Slots[1].Heals != nil {
		t.Errorf("an operator's restart leaves %+v", p.Slots[1].Heals)
	}
	f = heals(3, "none").tried(1, 5, time.Hour)
	f.rec.Slots[1].AvailableSince = f.now.Add(-time.Hour + time.Second)
	if p := f.plan(); p.Slots[1].Heals == nil {
		t.Error("forgotten before the window is over")
	}
	f.rec.Slots[1].AvailableSince = f.now.Add(-time.Hour)
	if p := f.plan(); p.Slots[1].Heals != nil {
		t.Error("kept after a whole window of health")
	}
}

// TestR115_TheLastRungIsAnotherCVM where the spec says so: for one that is gone, once
// listings lack it for long enough, and after the restarts.
func TestR115_TheLastRungIsAnotherCVM(t *testing.T) {
	f := heals(3, "none").gone(1, goneFor)
	wantHeld(t, f.plan(), "db-1", HoldInstanceMissing)
	f.spec.AutoHealing.Replace = group.ReplaceAuto
	p := f.plan()
	wantExecutes(t, p, "REPLACE db-1")
	if a := actionOf(t, p, "db-1"); a.VMUUID != "" || a.Incarnation != 1 || a.Actor != operation.ActorHealing {
		t.Errorf("%+v", a)
	}
	wantExecutes(t, heals(3, "none").gone(1, goneFor).plan())
	f.gone(1, goneFor-time.Second)
	wantExecutes(t, f.plan())
	fresh := heals(3, "none").gone(1, 0)
	fresh.rec.Slots[1].MissedSince = time.Time{}
	if p := fresh.plan(); !p.Slots[1].MissedSince.Equal(fresh.now) {
		t.Error("not noted since when it is missed")
	}
	f = spent(0)
	wantExecutes(t, f.plan(), "REPLACE db-1")
	f.rec.Slots[1].Heals.Replacements = 1
	wantHeld(t, f.plan(), "db-1", HoldQuarantined)
}

// TestR115_WhatMayNotBeReplacedIsStartedAgain: as often as where a person is to be asked, and then it is
// left, and says so.
func TestR115_WhatMayNotBeReplacedIsStartedAgain(t *testing.T) {
	kept := spent(0)
	kept.spec.PreservedState.Disk = "data"
	wantExecutes(t, kept.plan(), "RESTART db-1")
	kept.rec.Slots[1].Heals.Attempts = 10
	wantHeld(t, kept.plan(), "db-1", HoldQuarantined)
	if got := kept.plan().Status.Instances[1]; got.Slot != "db-1" || got.State != "Quarantined" {
		t.Errorf("%s is %s", got.Slot, got.State)
	}
	beside := spent(0).failing(0, "ready")
	if got := executes(beside.plan()); !slices.Contains(got, "RESTART db-1") {
		t.Errorf("beside another one that is ill: %v", got)
	}
	beside.rec.Slots[1].Heals.Attempts = 10
	wantHeld(t, beside.plan(), "db-1", HoldHealStorm)
}

// spent is a group whose db-1 is down and was restarted as often as it is, but for some of
// them in vain; its spec lets healing replace.
func spent(but int) *fixture {
	f := heals(3, "none").stopped(1).tried(1, 5, time.Hour)
	f.spec.AutoHealing.Replace = group.ReplaceAuto
	f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, f.now.Add(-2*time.Hour)
	f.rec.Slots[1].Heals.FailedDown = 5 - but
	return f
}

// TestR115_OnlyRestartsThatFailedCostADisk: too few of them, and a CVM that runs, give none up; nor
// does a Slot beside another one that is not well, or a fleet that is silent.
func TestR115_OnlyRestartsThatFailedCostADisk(t *testing.T) {
	for name, edit := range map[string]func(f *fixture){
		"it runs":                func(f *fixture) { f.obs.Slots[1].Instance.Status = "running" },
		"another one is ill":     func(f *fixture) { f.failing(0, "ready") },
		"others are down too":    func(f *fixture) { f.obs.Fleet = Fleet{Expected: 98, Heard: 98, Down: 2} },
		"others are not heard":   func(f *fixture) { f.obs.Fleet = Fleet{Expected: 100, Heard: 98} },
		"it speaks":              func(f *fixture) { f.obs.Slots[1].Report = healthyReport("db-1", f.now, "none", nil) },
		"it is outdated":         func(f *fixture) { f.want("B") },
		"the spec is to ask":     func(f *fixture) { f.spec.AutoHealing.Replace = group.ReplaceAsk },
		"one restart too few":    func(f *fixture) { *f = *spent(1) },
		"it was replaced lately": func(f *fixture) { f.rec.Slots[1].Heals.Replacements = 1 },
	} {
		f := spent(0)
		edit(f)
		for _, one := range executes(f.plan()) {
			if strings.HasPrefix(one, "REPLACE") {
				t.Errorf("%s: %s", name, one)
			}
		}
	}
}

// TestR118_WhatEndsTheCountOfHeals: an operator's restart or replacement, and another Revision, which leaves
// the replacements until it is reached. No drain does, no edit of checks, and no own env.
func TestR118_WhatEndsTheCountOfHeals(t *testing.T) {
	at := epoch
	before := group.Heals{Attempts: 4, Services: 2, Replacements: 1, FailedDown: 3, LastAt: at, LastKind: "RESTART", LastWhy: "it was down"}
	replaced := group.Heals{Attempts: 1, Replacements: 1, LastAt: at, LastKind: "RESTART", LastWhy: "it was down"}
	for name, c := range map[string]struct {
		a    Action
		want *group.Heals
	}{
		"a drain":               {Action{Kind: operation.Drain, Actor: operation.ActorOperator}, &before},
		"an operator's restart": {Action{Kind: operation.Restart, Actor: operation.ActorOperator}, nil},
		"of a service":          {Action{Kind: operation.Restart, Actor: operation.ActorOperator, Service: "app"}, nil},
		"a replacement":         {Action{Kind: operation.Replace, Actor: operation.ActorOperator}, nil},
		"an update by name":     {Action{Kind: operation.Update, Actor: operation.ActorOperator, Takes: group.ActionRestart, ForEnv: true}, nil},
		"an update":             {Action{Kind: operation.Update, Actor: operation.ActorRollout, Takes: group.ActionRestart}, &replaced},
		"an edit of checks":     {Action{Kind: operation.Update, Actor: operation.ActorRollout, Takes: group.ActionRefresh}, &before},
		"own env":               {Action{Kind: operation.Update, Actor: operation.ActorRollout, Takes: group.ActionRestart, ForEnv: true}, &before},
		"a removal":             {Action{Kind: operation.Delete, Actor: operation.ActorScaling}, &before},
	} {
		h := before
		rec := group.SlotRecord{Heals: &h}
		noteHeal(&rec, c.a, at.Add(time.Hour))
		if got := rec.Heals; (got == nil) != (c.want == nil) || got != nil && *got != *c.want || h != before {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	rec := group.SlotRecord{Heals: &group.Heals{Attempts: 4}}
	if noteHeal(&rec, Action{Kind: operation.Update, Takes: group.ActionRestart}, at); rec.Heals != nil {
		t.Errorf("never replaced, and kept %+v", rec.Heals)
	}
}

// TestR115_AnOutageEndsTheCount of restarts that cost a disk, and not that of attempts.
func TestR115_AnOutageEndsTheCount(t *testing.T) {
	f := heals(3, "none").tried(1, 5, time.Minute)
	f.rec.Slots[1].Heals.FailedDown = 5
	before := *f.rec.Slots[1].Heals
	if h := f.plan().Slots[1].Heals; h == nil || h.FailedDown != 0 || h.Attempts != 5 {
		t.Errorf("kept %+v", h)
	}
	if *f.rec.Slots[1].Heals != before {
		t.Error("the record that was read is changed")
	}
	f.obs.Slots[1].Report.Health = Unknown
	if h := f.plan().Slots[1].Heals; h == nil || h.FailedDown != 5 {
		t.Errorf("not ready, and kept %+v", h)
	}
}

// TestR116_WhatAnUpdateWouldRepairIsHealedWhereThatIsHeld: by a failure, a pause, or a person
// who did not approve yet. It goes on with what it ran.
func TestR116_WhatAnUpdateWouldRepairIsHealedWhereThatIsHeld(t *testing.T) {
	refused := func(n int) func(f *fixture) {
		return func(f *fixture) {
			for range n {
				f.op(1, operation.Failed, func(op *operation.Operation) {
					op.Kind, op.Calls, op.Cause, op.EndedAt = operation.Update, 1, operation.CauseRefused, f.now.Add(-time.Hour)
				})
			}
		}
	}
	for name, hold := range map[string]func(f *fixture){
		"failed":      func(f *fixture) { f.rec.Rollout.State = operation.FailedState },
		"refused":     refused(maxRefusals),
		"not offered": func(f *fixture) { f.obs.Refused = map[string]string{f.spec.Revision(): "no such image"} },
		"paused":      func(f *fixture) { f.obs.Paused = true },
		"not approved": func(f *fixture) {
			f.spec.UpdatePolicy.RequireApproval = true
			f.rec.Policy.RequireApproval = true
			f.rec.Policy.Approvals = map[string]policy.Approval{f.rec.Status.Stable: {ComposeHash: hashOf("A")}}
		},
	} {
		f := heals(3, "none").want("B").rolling().stopped(1)
		was := f.obs.Slots[1].Admission.Revision
		hold(f)
		p := f.plan()
		wantExecutes(t, p, "RESTART db-1")
		if a := actionOf(t, p, "db-1"); a.To != was {
			t.Errorf("%s: to %.8s, want what it runs, %.8s", name, a.To, was)
		}
	}
	f := heals(3, "none").want("B").rolling().stopped(1)
	refused(maxRefusals - 1)(f)
	wantExecutes(t, f.plan(), "UPDATE db-1") // it is tried once more
}

// TestR45_AllThatStoppedStartTogether: of databases whose leader is among them nobody waits
// for it alone.
func TestR45_AllThatStoppedStartTogether(t *testing.T) {
	for _, kind := range []string{"none", "patroni", "etcd"} {
		f := heals(3, kind).stopped(0).stopped(1).stopped(2)
		if p := f.plan(); len(executes(p)) != 3 {
			t.Errorf("%s: begins %v\n%s", kind, executes(p), describe(p))
		}
	}
}

// TestR128_AnAgentThatSpeaksIsNotReplaced: a listing without its CVM is wrong.
func TestR128_AnAgentThatSpeaksIsNotReplaced(t *testing.T) {
	f := heals(3, "none")
	f.spec.AutoHealing.Replace = group.ReplaceAuto
	f.obs.Slots[1].Instance = nil
	f.rec.Slots[1].MissedSince = f.now.Add(-time.Hour)
	wantExecutes(t, f.plan())
}

// TestR136_NobodyIsReplacedWithoutAnotherCopy: the last one of a database's members.
func TestR136_NobodyIsReplacedWithoutAnotherCopy(t *testing.T) {
	f := heals(2, "patroni").gone(1, time.Hour)
	f.spec.AutoHealing.Replace = group.ReplaceAuto
	wantExecutes(t, f.plan(), "REPLACE db-1")
	f.lagging(0, 10)
	wantHeld(t, f.plan(), "db-1", HoldNoSource)
}

// TestR117_OneAtATimeIsHealed.
func TestR117_OneAtATimeIsHealed(t *testing.T) {
	f := heals(5, "none").failing(1, "ready").failing(2, "ready")
	p := f.plan()
	wantExecutes(t, p, "RESTART db-2")
	wantHeld(t, p, "db-1", HoldHealInProgress)
	f.op(2, operation.Booting, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout = operation.Restart, operation.ActorHealing, ""
	})
	wantHeld(t, f.plan(), "db-1", HoldHealInProgress)
}

// TestR119_AStormIsNotHealed: what most of a group has is more likely shared, and below
// its quorum nobody restarts what runs. What the platform says is down is started.
func TestR119_AStormIsNotHealed(t *testing.T) {
	f := heals(3, "none").failing(1, "ready").failing(2, "ready")
	wantHeld(t, f.plan(), "db-2", HoldHealStorm)
	f.stopped(1)
	wantExecutes(t, f.plan(), "RESTART db-1")
	f = heals(3, "etcd").sick(1).sick(2)
	for _, i := range []int{1, 2} {
		f.rec.Slots[i].DownSince = f.now.Add(-time.Hour)
	}
	p := f.plan()
	wantHeld(t, p, "db-2", HoldHealStorm)
	wantHeld(t, p, "db-1", HoldHealStorm)
}

// TestR120_ASplitIsNotHealed: a member that is silent with many others of the fleet is not
// restarted, and its silence does not count while a third of it is dark.
func TestR120_ASplitIsNotHealed(t *testing.T) {
	f := heals(3, "none")
	f.silent(1, f.now.Add(-6*time.Minute))
	f.obs.Fleet = Fleet{Expected: 100, Heard: 89}
	wantHeld(t, f.plan(), "db-1", HoldHealStorm)
	f.obs.Fleet.Heard = 90
	wantExecutes(t, f.plan(), "RESTART db-1")
	// Eleven are silent, ten of them since another day.
	f.obs.Fleet.Heard = 89
	for range 10 {
		f.obs.Fleet.Silences = append(f.obs.Fleet.Silences, f.now.Add(-24*time.Hour))
	}
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.obs.Fleet.Silences = nil
	f.obs.Fleet.Heard = 66
	p := f.plan()
	wantExecutes(t, p)
	if !p.Slots[1].SilenceFrom.Equal(f.now) {
		t.Fatalf("silence counts from %s", p.Slots[1].SilenceFrom)
	}
	// The split ends, and who is silent still has its time anew.
	f.rec.Slots[1], f.obs.Fleet.Heard = p.Slots[1], 99
	wantExecutes(t, f.plan())
	f.rec.Slots[1].SilenceFrom = f.now.Add(-f.t.LostAfter)
	wantExecutes(t, f.plan(), "RESTART db-1")
}

// TestHealingIsCalledOffWhereItIsNotNeededAnyMore.
func TestHealingIsCalledOffWhereItIsNotNeededAnyMore(t *testing.T) {
	heal := func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout, op.SkipDrain, op.WasUnavailable = operation.Restart, operation.ActorHealing, "", true, true
	}
	f := heals(3, "none").stopped(1)
	f.op(1, operation.Drained, heal)
	if facts := f.facts(f.rec.Operations[0]); facts.Unwanted != "" || !facts.Safe {
		t.Fatalf("unwanted: %q, unsafe: %q", facts.Unwanted, facts.SafeReason)
	}
	f.obs.Paused = true
	if facts := f.facts(f.rec.Operations[0]); facts.Paused {
		t.Error("a pause stops healing")
	}
	f.spec.AutoHealing = nil
	if facts := f.facts(f.rec.Operations[0]); facts.Unwanted == "" {
		t.Error("wanted though auto_healing_policies was removed")
	}
	f = heals(3, "none")
	f.op(1, operation.Drained, heal)
	if facts := f.facts(f.rec.Operations[0]); facts.Unwanted == "" {
		t.Error("wanted though the slot is well")
	}
}

// onService is a group whose spec names a service, and whose db-1 fails its check.
func onService() *fixture {
	f := heals(3, "none").failing(1, "ready")
	f.spec.AutoHealing.Service = "app"
	return f
}

// TestR115_AServiceGoesBeforeItsCVM where the agent speaks and says what is wrong; twice, and
// then the CVM.
func TestR115_AServiceGoesBeforeItsCVM(t *testing.T) {
	f := onService()
	p := f.plan()
	wantExecutes(t, p, "RESTART db-1")
	a := actionOf(t, p, "db-1")
	op, ok := p.Begin(a, 3, f.now)
	if !ok || a.Service != "app" || op.Service != "app" || op.Actor != operation.ActorHealing || op.To != f.spec.Revision() {
		t.Fatalf("%+v, %t", op, ok)
	}
	if h := p.Slots[1].Heals; h == nil || h.Services != 1 || h.Attempts != 0 {
		t.Errorf("attempts %+v", h)
	}
	for name, c := range map[string]struct {
		edit func(f *fixture)
		want string
	}{
		"once before":             {func(f *fixture) { f.served(1, 1) }, "app"},
		"twice before":            {func(f *fixture) { f.served(1, 2) }, ""},
		"its CVM was restarted":   {func(f *fixture) { f.tried(1, 1, time.Hour) }, ""},
		"the agent cannot":        {func(f *fixture) { f.served(1, 1); f.refusedService(1) }, ""},
		"its CVM stopped":         {func(f *fixture) { f.stopped(1) }, ""},
		"its agent is silent":     {func(f *fixture) { f.silent(1, f.now.Add(-6*time.Minute)) }, ""},
		"the spec names none":     {func(f *fixture) { f.spec.AutoHealing.Service = "" }, ""},
		"an operator asks for it": {func(f *fixture) { f.asks("db-1", "r") }, ""},
	} {
		f := onService()
		c.edit(f)
		if a := actionOf(t, f.plan(), "db-1"); !a.Execute || a.Kind != operation.Restart || a.Service != c.want {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// served notes restarts of the service of ordinal i, an hour ago.
func (f *fixture) served(i, n int) *fixture {
	f.rec.Slots[i].Heals = &group.Heals{Services: n, LastAt: f.now.Add(-time.Hour), LastKind: "RESTART", LastWhy: "it was down"}
	return f
}

// refusedService: the agent of ordinal i could not restart the service, in this outage.
func (f *fixture) refusedService(i int) {
	f.rec.Slots[i].AvailableSince, f.rec.Slots[i].UnavailableSince = time.Time{}, f.now.Add(-2*time.Hour)
	f.op(i, operation.Failed, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout, op.Service, op.Cause = operation.Restart, operation.ActorHealing, "", "app", operation.CauseService
		op.EndedAt = f.now.Add(-time.Hour)
	})
}

// TestR119_AStormDoesNotHoldWhatIsDown: to start a process that is down takes nothing away;
// to restart one that merely fails its check may.
func TestR119_AStormDoesNotHoldWhatIsDown(t *testing.T) {
	f := onService().failing(2, "ready")
	wantHeld(t, f.plan(), "db-1", HoldHealStorm)
	f = heals(3, "patroni").sick(1).sick(2)
	f.spec.AutoHealing.Service = "app"
	for _, i := range []int{1, 2} {
		f.rec.Slots[i].AvailableSince, f.rec.Slots[i].UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
		f.rec.Slots[i].DownSince = f.now.Add(-unwellFor)
	}
	p := f.plan()
	wantExecutes(t, p, "RESTART db-2") // voters one after the other
	if a := actionOf(t, p, "db-2"); a.Service != "app" {
		t.Errorf("%+v", a)
	}
	f.spec.AutoHealing.Service = ""
	wantHeld(t, f.plan(), "db-1", HoldHealStorm)
}

// TestR70_AServicesRestartGoesOn: what was begun is not planned anew by its own count, but
// where its CVM went down meanwhile.
func TestR70_AServicesRestartGoesOn(t *testing.T) {
	f := onService().served(1, 2)
	f.op(1, operation.Draining, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout, op.Service, op.To = operation.Restart, operation.ActorHealing, "", "app", f.spec.Revision()
	})
	op := f.rec.Operations[0]
	if got := f.facts(op); got.Unwanted != "" || got.Limits.Service != serviceWithin {
		t.Errorf("unwanted %q, within %s", got.Unwanted, got.Limits.Service)
	}
	f.stopped(1)
	if got := f.facts(op); !strings.Contains(got.Unwanted, "its CVM") {
		t.Errorf("unwanted %q", got.Unwanted)
	}
}

// TestR115_AGuestThatHangsIsNotAskedTwice: force follows a restart of this outage that brought no
// boot, where the CVM runs; not one whose boot came, and not the restart of a service.
func TestR115_AGuestThatHangsIsNotAskedTwice(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(op *operation.Operation)
		want bool
	}{
		"no boot came":      {func(*operation.Operation) {}, true},
		"a boot came":       {func(op *operation.Operation) { op.Entered[operation.Joining] = op.CreatedAt }, false},
		"it was refused":    {func(op *operation.Operation) { op.Cause = operation.CauseRefused }, false},
		"never called":      {func(op *operation.Operation) { op.Calls = 0 }, false},
		"a service's":       {func(op *operation.Operation) { op.Service = "app" }, false},
		"an earlier outage": {func(op *operation.Operation) { op.CreatedAt = epoch }, false},
	} {
		f := heals(3, "none").silent(1, epoch.Add(24*time.Hour-30*time.Minute)).tried(1, 1, 10*time.Minute)
		f.op(1, operation.Failed, func(op *operation.Operation) {
			op.Kind, op.Actor, op.Rollout, op.Calls, op.Cause = operation.Restart, operation.ActorHealing, "", 1, operation.CauseDeadline
			op.To, op.Entered = f.spec.Revision(), operation.PhaseTimes{}
			op.CreatedAt, op.EndedAt = f.now.Add(-20*time.Minute), f.now.Add(-10*time.Minute)
			c.edit(op)
		})
		p := f.plan()
		a := actionOf(t, p, "db-1")
		op, ok := p.Begin(a, 3, f.now)
		if !ok || op.Force != c.want {
			t.Errorf("%s: %t, force %t: %+v", name, ok, op.Force, a)
		}
		if c.want {
			at := f.obs.Slots[1].Admission.AdmittedAt
			f.obs.Slots[1].Admission.AdmittedAt = op.CreatedAt.Add(-time.Minute) // late, after the deadline
			if a := actionOf(t, f.plan(), "db-1"); a.Force {
				t.Errorf("its boot came late, and it is forced: %+v", a)
			}
			f.obs.Slots[1].Admission.AdmittedAt = at
			if a := actionOf(t, f.stopped(1).plan(), "db-1"); a.Force {
				t.Errorf("what does not run is forced: %+v", a)
			}
		}
	}
}
