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

// TestR118_AReplacementThatCameToNothingIsTriedAgain: the retry follows after the usual wait, and the Hold has the
// platform's message. Once the old CVM is gone, the planner fills the Slot and does not quarantine it.
func TestR118_AReplacementThatCameToNothingIsTriedAgain(t *testing.T) {
	f := heals(3, "none").gone(1, time.Hour).tried(1, 0, 3*time.Minute)
	f.spec.AutoHealing.Replace = group.ReplaceAuto
	f.rec.Slots[1].Heals.LastKind = string(operation.Replace)
	for range 3 {
		f.op(1, operation.Failed, func(op *operation.Operation) {
			op.Kind, op.Actor, op.Rollout, op.Call.Number, op.Failure.Cause = operation.Replace, operation.ActorHealing, "", 1, operation.CauseRefused
			op.Reason, op.Times.Ended = "the platform refused: no quota", f.now.Add(-time.Minute-59*time.Second)
		})
	}
	p := f.plan()
	wantHeld(t, p, "db-1", HoldHealBackoff)
	if text := actionOf(t, p, "db-1").Holds[0].Message; !strings.Contains(text, "no quota") || !strings.Contains(text, "attempt 4") {
		t.Errorf("told: %s", text)
	}
	f.now = f.now.Add(time.Second)
	wantExecutes(t, f.plan(), "REPLACE db-1")

	f.rec.Slots[1].Heals.Replacements = 1
	f.rec.Slots[1] = f.rec.Slots[1].Unbound("replaced", f.now)
	p = f.plan()
	wantExecutes(t, p, "CREATE db-1")
	for _, c := range p.Status.Conditions {
		if c.Type == ConditionQuarantined {
			t.Errorf("given up while it is filled: %s", c.Message)
		}
	}
}

// TestR115_AMemberLostOnAnotherDayKeepsNoDisk: only members of the cluster that went at the same time as this one keep
// its disk from being given up.
func TestR115_AMemberLostOnAnotherDayKeepsNoDisk(t *testing.T) {
	for name, c := range map[string]struct {
		of       []time.Duration
		spoke    time.Duration // when its agent was heard last: a restart did not help
		replaced bool
	}{
		"alone":                                   {nil, time.Hour, true},
		"beside one of a week":                    {[]time.Duration{7 * 24 * time.Hour}, time.Hour, true},
		"beside one of later":                     {[]time.Duration{time.Minute}, time.Hour, true},
		"beside one with it":                      {[]time.Duration{time.Hour + 9*time.Minute}, time.Hour, false},
		"beside one with it, and was restarted":   {[]time.Duration{time.Hour}, 40 * time.Minute, false},
		"beside one that went when it was silent": {[]time.Duration{40 * time.Minute}, 40 * time.Minute, false},
	} {
		f := heals(3, "none").gone(1, time.Hour)
		f.spec.AutoHealing.Replace = group.ReplaceAuto
		f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
		f.rec.Slots[1].SilenceFrom = f.now.Add(-c.spoke)
		f.obs.Fleet = Fleet{Expected: 20, Heard: 20, Down: 1 + len(c.of), Downs: [][]time.Time{{f.now.Add(-time.Hour)}}}
		for _, ago := range c.of {
			f.obs.Fleet.Downs = append(f.obs.Fleet.Downs, []time.Time{f.now.Add(-ago)})
		}
		p := f.plan()
		if got := slices.Contains(executes(p), "REPLACE db-1"); got != c.replaced {
			t.Errorf("%s: replaced %t: %s", name, got, p.Message)
		}
	}
}

// TestR115_TheWayOutHelps: the Hold names the commands that the Slot's CVM allows.
func TestR115_TheWayOutHelps(t *testing.T) {
	gone := func(heals *group.Heals, beside bool) *fixture {
		f := heals3(heals).gone(1, time.Hour)
		if beside {
			f.stopped(0)
		}
		return f
	}
	for name, c := range map[string]struct {
		f               *fixture
		predicate, want string
	}{
		"gone, in a storm":   {gone(nil, true), HoldHealStorm, "replace db-1"},
		"gone, and given up": {gone(&group.Heals{Attempts: 1, Replacements: 1}, false), HoldQuarantined, "replace db-1"},
		"stopped, given up":  {heals3(&group.Heals{Attempts: 10}).stopped(1), HoldQuarantined, "restart db-1, or cadre instance replace db-1"},
	} {
		p := c.f.plan()
		holds := actionOf(t, p, "db-1").Holds
		i := slices.IndexFunc(holds, func(h Hold) bool { return h.Predicate == c.predicate })
		if i < 0 || !strings.HasSuffix(holds[i].Message, ": cadre instance "+c.want) {
			t.Errorf("%s: %+v", name, holds)
		}
	}
}

// heals3 is a group of three Slots with automatic replacement; ordinal 1 has the given healing record.
func heals3(before *group.Heals) *fixture {
	f := heals(3, "none")
	f.spec.AutoHealing.Replace = group.ReplaceAuto
	f.rec.Slots[1].Heals = before
	return f
}

// TestR112_AMemberLostBeforeItsUpdateGetsTheStableRevision: this holds for any reason that delays the update. Where the
// stable Revision may not run any more, the new CVM gets the wanted one.
func TestR112_AMemberLostBeforeItsUpdateGetsTheStableRevision(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(f *fixture, a string)
		target bool
	}{
		"the rollout runs": {func(*fixture, string) {}, false},
		"it is not approved": {func(f *fixture, a string) {
			f.rec.Policy.RequireApproval = true
			f.rec.Policy.Approvals = map[string]policy.Approval{a: {ComposeHash: hashOf("A")}}
		}, false},
		"the platform does not take it": {func(f *fixture, _ string) { f.obs.Refused = map[string]string{f.spec.Revision(): "no"} }, false},
		"more than is allowed":          {func(f *fixture, _ string) { f.spec.UpdatePolicy.MostDisruptiveAllowedAction = group.ActionRefresh }, false},
		"its CVM was given the target":  {func(f *fixture, _ string) { f.rec.Slots[1].Assigned = f.spec.Revision() }, false},
		"what the others run is revoked": {func(f *fixture, _ string) {
			f.rec.Policy = f.order()
			f.rec.Policy.Revoked = []policy.Revocation{{Kind: policy.RevokedRevision, ID: hashOf("A")}}
		}, true},
	} {
		f := heals(3, "none").recorded()
		f.spec.AutoHealing.Replace = group.ReplaceAuto
		a := f.spec.Revision()
		f.want("B").rolling().gone(1, time.Hour)
		c.edit(f, a)
		want := a
		if c.target {
			want = f.spec.Revision()
		}
		step := actionOf(t, f.plan(), "db-1")
		if step.Kind != operation.Replace || step.Actor != operation.ActorHealing || !step.Execute || step.To != want {
			t.Errorf("%s: %s to %.8s, want REPLACE to %.8s\n%s", name, step.Kind, step.To, want, describe(f.plan()))
		}
	}
}

// TestR118_ANewCVMThatIsNeverAdmittedIsLeftToAPerson: its replacement was the last attempt, and a second one would
// delete another disk. A Slot whose CVM is gone gets one more.
func TestR118_ANewCVMThatIsNeverAdmittedIsLeftToAPerson(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture)
		want bool
	}{
		"never admitted":             {func(*fixture) {}, true},
		"admitted":                   {func(f *fixture) { f.obs.Slots[1].Admission = newFixture(3, "none").obs.Slots[1].Admission }, false},
		"it was restarted meanwhile": {func(f *fixture) { f.rec.Slots[1].Heals.LastKind = string(operation.Restart) }, false},
		"its CVM is gone": {func(f *fixture) {
			f.rec.Slots[1] = f.rec.Slots[1].Unbound("replaced", f.now)
			f.obs.Slots[1].Instance = nil
		}, false},
		"healing is off": {func(f *fixture) { f.spec.AutoHealing = nil }, false},
	} {
		f := heals3(&group.Heals{Attempts: 1, Replacements: 1, LastKind: string(operation.Replace), LastAt: epoch})
		f.obs.Slots[1].Admission, f.obs.Slots[1].Report = nil, nil
		f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
		c.edit(f)
		p := f.plan()
		named := slices.ContainsFunc(p.Status.Conditions, func(c group.Condition) bool {
			return c.Type == ConditionQuarantined && strings.Contains(c.Message, "db-1")
		})
		if got := p.Status.Instances[1].State == group.SlotQuarantined; got != c.want || named != c.want {
			t.Errorf("%s: %s, and a condition names it: %t", name, p.Status.Instances[1].State, named)
		}
	}
}
