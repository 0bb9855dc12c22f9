package rollout

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR118_AWindowOfHealthCountsWithoutAPassInIt: the first pass after the window's end may be the pass that sees m
// broken.
func TestR118_AWindowOfHealthCountsWithoutAPassInIt(t *testing.T) {
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

// TestR118_AttemptsWaitLongerAndEnd: the wait doubles with each attempt, and quarantine follows. A whole window of
// health, or an operator's request, resets the count.
func TestR118_AttemptsWaitLongerAndEnd(t *testing.T) {
	f := heals(3, "none").stopped(1).tried(1, 2, 59*time.Second)
	p := f.plan()
	wantHeld(t, p, "db-1", HoldHealBackoff)
	f.tried(1, 2, time.Minute)
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.tried(1, 5, time.Hour)
	wantExecutes(t, f.plan(), "RESTART db-1") // a CVM that is down is started twice as often
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

// TestR115_TheLastRungIsAnotherCVM: with "auto" the planner replaces a CVM that listings have lacked for long
// enough, and a CVM whose restarts failed.
func TestR115_TheLastRungIsAnotherCVM(t *testing.T) {
	f := heals(3, "none").gone(1, goneFor)
	wantHeld(t, f.plan(), "db-1", HoldInstanceMissing)
	f.spec.AutoHealing.Replace = group.ReplaceAuto
	p := f.plan()
	wantExecutes(t, p, "REPLACE db-1")
	if a := actionOf(t, p, "db-1"); a.CVM.VMUUID != "" || a.CVM.Incarnation != 1 || a.Actor != operation.ActorHealing {
		t.Errorf("%+v", a)
	}
	wantExecutes(t, heals(3, "none").gone(1, goneFor).plan())
	f.gone(1, goneFor-time.Second)
	wantExecutes(t, f.plan())
	wantHeld(t, f.plan(), "db-1", HoldHealBackoff)
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

// TestR115_TheHoldRequestsNoReplacementThatHealingWillMake: while healing waits whether a missing CVM comes back, the
// Hold requests no replacement from an operator. The Hold requests the replacement when healing creates no CVM, or has
// created one already.
func TestR115_TheHoldRequestsNoReplacementThatHealingWillMake(t *testing.T) {
	for name, c := range map[string]struct {
		with func(f *fixture)
		hold string
	}{
		"to come":                   {func(*fixture) {}, HoldHealBackoff},
		"noticed now":               {func(f *fixture) { f.rec.Slots[1].MissedSince = time.Time{} }, HoldHealBackoff},
		"its agent spoke right now": {func(f *fixture) { f.obs.Slots[1].Report = newFixture(3, "none").obs.Slots[1].Report }, HoldHealBackoff},
		"a person is to be asked":   {func(f *fixture) { f.spec.AutoHealing.Replace = group.ReplaceAsk }, HoldInstanceMissing},
		"not healed when it exits":  {func(f *fixture) { f.spec.RestartPolicy.On = []string{group.OnUnhealthy} }, HoldInstanceMissing},
		"replaced before":           {func(f *fixture) { f.tried(1, 1, time.Hour).rec.Slots[1].Heals.Replacements = 1 }, HoldInstanceMissing},
		"not healed":                {func(f *fixture) { f.spec.AutoHealing = nil }, HoldInstanceMissing},
	} {
		f := heals(3, "none").gone(1, 10*time.Second)
		f.spec.AutoHealing.Replace = group.ReplaceAuto
		c.with(f)
		p := f.plan()
		t.Log(name)
		wantHeld(t, p, "db-1", c.hold)
		h := actionOf(t, p, "db-1").Holds[0]
		deferred := c.hold == HoldHealBackoff
		if asks := strings.Contains(h.Message, "cadre instance replace"); asks == deferred || h.Until.IsZero() == deferred {
			t.Errorf("%s: %s, until %s", name, h.Message, h.Until)
		}
	}
}

// TestR115_AMemberThatMayNotBeReplacedIsRestarted: the restarts are as many as without "auto", and quarantine follows.
func TestR115_AMemberThatMayNotBeReplacedIsRestarted(t *testing.T) {
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
	beside.rec.Slots[1].Heals.Attempts, beside.rec.Slots[1].Heals.Shared = 100, 95 // both may share one cause, which may end without a repair
	if got := executes(beside.plan()); !slices.Contains(got, "RESTART db-1") {
		t.Errorf("the start is given up: %v", got)
	}
}

// spent is a group whose db-1 is down and had all its restarts. All except the given number of them failed. Its
// spec lets healing replace.
func spent(but int) *fixture {
	f := heals(3, "none").stopped(1).tried(1, 5, time.Hour)
	f.spec.AutoHealing.Replace = group.ReplaceAuto
	f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, f.now.Add(-2*time.Hour)
	f.rec.Slots[1].Heals.FailedDown = 5 - but
	return f
}

// TestR115_OnlyRestartsThatFailedCostADisk: too few failed restarts, and a CVM that runs, cost no disk. Another
// unhealthy Slot, or a silent fleet, keeps the disk as well.
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

// TestR118_ARequestOrAnotherRevisionEndsTheCountOfHeals: an operator's restart or replacement ends the count. Another
// Revision ends the count too, and keeps the replacements until the member reaches the Revision. A drain, an edit of
// checks and own env keep the count.
func TestR118_ARequestOrAnotherRevisionEndsTheCountOfHeals(t *testing.T) {
	at := epoch
	before := group.Heals{Attempts: 4, Services: 2, Replacements: 1, FailedDown: 3, LastAt: at, LastKind: "RESTART", LastWhy: "it was down"}
	replaced := group.Heals{Attempts: 1, Replacements: 1, LastAt: at, LastKind: "RESTART", LastWhy: "it was down"}
	for name, c := range map[string]struct {
		a    Action
		want *group.Heals
	}{
		"a drain":               {Action{Kind: operation.Drain, Actor: operation.ActorOperator}, &before},
		"an operator's restart": {Action{Kind: operation.Restart, Actor: operation.ActorOperator}, nil},
		"of a service":          {Action{Kind: operation.Restart, Actor: operation.ActorOperator, Way: operation.Way{Service: "app"}}, nil},
		"a replacement":         {Action{Kind: operation.Replace, Actor: operation.ActorOperator}, nil},
		"an update by name":     {Action{Kind: operation.Update, Actor: operation.ActorOperator, Takes: group.ActionRestart, Way: operation.Way{Mode: operation.ModeOwn}}, nil},
		"an update":             {Action{Kind: operation.Update, Actor: operation.ActorRollout, Takes: group.ActionRestart}, &replaced},
		"an edit of checks":     {Action{Kind: operation.Update, Actor: operation.ActorRollout, Takes: group.ActionRefresh, Way: operation.Way{Mode: operation.ModeRefresh}}, &before},
		"own env":               {Action{Kind: operation.Update, Actor: operation.ActorRollout, Takes: group.ActionRestart, Way: operation.Way{Mode: operation.ModeOwn}}, &before},
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

// TestR115_AnOutageEndsTheCount: the end of an outage resets the count of restarts that cost a disk, and keeps the
// count of attempts.
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

// TestR118_StatusAndHoldAgreeOnAGivenUpMember: the status and the Hold of one pass agree. The pass computes the
// remediation once, before it records that the other members have listed a newcomer.
func TestR118_StatusAndHoldAgreeOnAGivenUpMember(t *testing.T) {
	f := heals(3, "etcd").tried(2, 5, time.Hour)
	f.joiner(2)
	f.obs.Slots[0].Report.Learners = []string{"db-2"}
	r := &f.rec.Slots[2]
	r.AvailableSince, r.UnavailableSince, r.DownSince = time.Time{}, f.now.Add(-2*time.Hour), f.now.Add(-2*time.Hour)
	for pass, given := range []bool{false, true} {
		p := f.plan()
		told := p.Status.Instances[2].State == group.SlotQuarantined
		held := hasAction(p, "db-2") && actionOf(t, p, "db-2").HeldBy(HoldQuarantined)
		if told != given || held != given {
			t.Errorf("pass %d: told %t, held %t, want %t\n%s", pass, told, held, given, describe(p))
		}
		f.rec.Slots = p.Slots
		f.rec.Slots[2].DownSince = f.now.Add(-2 * time.Hour) // its process had its time to start
	}
}
