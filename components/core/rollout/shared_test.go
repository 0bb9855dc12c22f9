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

// failedBoot ends a healing restart of ordinal i without a boot, some time ago.
func (f *fixture) failedBoot(i int, ago time.Duration, cause operation.Cause, reason string) {
	f.stopped(i)
	f.op(i, operation.Failed, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout, op.Call.Number, op.Failure.Cause, op.Reason = operation.Restart, operation.ActorHealing, "", 1, cause, reason
		if cause == operation.CauseBootError {
			op.Failure.Signature = operation.Signature(reason)
		}
		op.To = f.spec.Revision()
		op.Times.Created, op.Times.Ended = f.now.Add(-ago-time.Minute), f.now.Add(-ago)
	})
}

// fresh has everybody who reports do so now.
func (f *fixture) fresh() {
	f.obs.At = f.now
	for i := range f.obs.Slots {
		if f.obs.Slots[i].Report != nil {
			f.back(i)
		}
	}
}

// back makes ordinal i run and report that it is well.
func (f *fixture) back(i int) {
	f.obs.Slots[i].Instance.Status = "running"
	f.obs.Slots[i].Report = healthyReport(f.obs.Slots[i].Slot, f.now, "none", f.spec.Members())
}

const noKeys = "the CVM does not boot: key service did not answer in 30s, boot %d"

// alike is a group of five, two of which failed to boot in the same way.
func alike() *fixture {
	f := heals(5, "none")
	f.failedBoot(1, 5*time.Minute, operation.CauseBootError, strings.Replace(noKeys, "%d", "17", 1))
	f.failedBoot(3, 2*time.Minute, operation.CauseBootError, strings.Replace(noKeys, "%d", "99", 1))
	return f
}

// TestR122_BootsThatFailAlikeStopHealing, by a hold and a condition that name the way.
func TestR122_BootsThatFailAlikeStopHealing(t *testing.T) {
	p := alike().plan()
	wantHeld(t, p, "db-1", HoldSharedCause)
	wantHeld(t, p, "db-3", HoldSharedCause)
	cause := p.Status.SharedCause
	if cause == nil || !strings.Contains(cause.Way, "key service") || len(cause.Slots) != 2 || cause.SpecIndex != 7 || !cause.Ended.IsZero() {
		t.Fatalf("%+v", cause)
	}
	told := false
	for _, c := range p.Status.Conditions {
		told = told || c.Type == ConditionSharedCause && c.Status && strings.Contains(c.Message, "db-1, db-3") && strings.Contains(c.Message, "retry")
	}
	if !told {
		t.Errorf("no condition tells of it: %+v", p.Status.Conditions)
	}
}

// TestR122_OfTwoWaysOneIsNamed: the same one in each pass, or the status would be written again and again.
func TestR122_OfTwoWaysOneIsNamed(t *testing.T) {
	f := alike()
	for _, i := range []int{0, 2} {
		f.failedBoot(i, 3*time.Minute, operation.CauseBootError, "the CVM does not boot: a disk is full")
	}
	for range 30 { // ways are counted in a map, whose order is another one each time
		if cause := f.plan().Status.SharedCause; cause == nil || !strings.Contains(cause.Way, "disk") {
			t.Fatalf("%+v", cause)
		}
	}
}

// TestR122_WhatIsNoSharedCause: another way, another time, one Slot alone, one that is well
// again, a restart of a service, and a boot that came and then did not work.
func TestR122_WhatIsNoSharedCause(t *testing.T) {
	boot := strings.Replace(noKeys, "%d", "1", 1)
	for name, edit := range map[string]func(f *fixture){
		"one alone": func(f *fixture) {},
		"another way": func(f *fixture) {
			f.failedBoot(3, time.Minute, operation.CauseBootError, "the CVM does not boot: disk is full")
		},
		"long before":     func(f *fixture) { f.failedBoot(3, sharedWithin, operation.CauseBootError, boot) },
		"refused by call": func(f *fixture) { f.failedBoot(3, time.Minute, operation.CauseRefused, boot) },
		"the boot came": func(f *fixture) {
			f.failedBoot(3, time.Minute, operation.CauseDeadline, boot)
			f.rec.Operations[1].Entered = operation.PhaseTimes{operation.Joining: f.now}
		},
		"a service's": func(f *fixture) {
			f.failedBoot(3, time.Minute, operation.CauseBootError, boot)
			f.rec.Operations[1].Way.Service = "app"
		},
		"no healing": func(f *fixture) {
			f.failedBoot(3, time.Minute, operation.CauseBootError, boot)
			f.spec.AutoHealing = nil
		},
	} {
		f := heals(5, "none")
		f.failedBoot(1, 2*time.Minute, operation.CauseBootError, boot)
		edit(f)
		if got := f.plan().Status.SharedCause; got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestR122_RefusalsAreAWay: by their code, whatever else they say.
func TestR122_RefusalsAreAWay(t *testing.T) {
	f := heals(5, "none")
	for _, i := range []int{1, 3} {
		f.obs.Slots[i].Report = nil
		f.rec.Slots[i].UnavailableSince = f.now.Add(-2 * time.Minute)
		f.obs.Slots[i].Refusal = &policy.Refusal{Slot: f.obs.Slots[i].Slot, InstanceID: f.obs.Slots[i].Admission.InstanceID, BootID: "another", Proven: true,
			Code: "TCB_OUT_OF_DATE", Message: strings.Repeat("x", i), At: f.now.Add(-time.Minute)}
	}
	f.stopped(4)
	p := f.plan()
	wantHeld(t, p, "db-4", HoldSharedCause)
	if p.Status.SharedCause.Way != "admission refused: TCB_OUT_OF_DATE" {
		t.Errorf("%+v", p.Status.SharedCause)
	}
}

// TestR122_ItStandsUntilSomebodyDecides: the failures may be old by then. An operator's word, an
// edit of the spec and a boot that comes end it, and what failed before is no evidence then.
func TestR122_ItStandsUntilSomebodyDecides(t *testing.T) {
	later := func() *fixture {
		f := alike()
		f.rec.Status.SharedCause = f.plan().Status.SharedCause
		f.now = f.now.Add(2 * sharedWithin)
		f.fresh()
		return f
	}
	f := later()
	f.stopped(4)
	p := f.plan()
	wantHeld(t, p, "db-4", HoldSharedCause)
	if got := p.Status.SharedCause; got == nil || !got.Since.Equal(f.rec.Status.SharedCause.Since) {
		t.Errorf("%+v", got)
	}
	for name, end := range map[string]func(f *fixture){
		"an operator's word":  func(f *fixture) { f.obs.Requests = []Request{{ID: "r", Kind: RequestRetry, By: "op"}} },
		"an edit of the spec": func(f *fixture) { f.rec.SpecIndex++ },
		"one is back":         func(f *fixture) { f.back(3) },
	} {
		f := later()
		end(f)
		p := f.plan()
		if got := p.Status.SharedCause; got == nil || !got.Ended.Equal(f.now) {
			t.Errorf("%s: %+v", name, got)
		}
		if a := actionOf(t, p, "db-1"); !a.Execute {
			t.Errorf("%s: %+v", name, a.Holds)
		}
	}
	f = alike()
	f.rec.Status.SharedCause = &group.SharedCause{Way: "w", Slots: []string{"db-1"}, SpecIndex: 7, Ended: f.now.Add(-time.Minute)}
	if got := f.plan().Status.SharedCause; got == nil || got.Ended.IsZero() {
		t.Errorf("what failed before its end counts again: %+v", got)
	}
	f.rec.Status.SharedCause.Ended = f.now.Add(-sharedWithin - time.Second)
	if got := f.plan().Status.SharedCause; got == nil || !got.Ended.IsZero() || got.Way == "w" {
		t.Errorf("a new cause after an old one: %+v", got)
	}
}

// TestR122_OnlyTheOwnBootFailsAndOnce: whoever names an instance is refused in its name, what was refused before
// an outage or before an operator let go on says nothing, and one Boot that asks for ever failed once.
func TestR122_OnlyTheOwnBootFailsAndOnce(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture, r *policy.Refusal)
		want bool
	}{
		"its own":                  {func(*fixture, *policy.Refusal) {}, true},
		"its own, asking for long": {func(f *fixture, r *policy.Refusal) { r.Since, r.At = f.now.Add(-3*time.Minute), f.now }, true},
		"a stranger's":             {func(_ *fixture, r *policy.Refusal) { r.Proven = false }, false},
		"of before the outage":     {func(f *fixture, r *policy.Refusal) { r.At = f.now.Add(-7 * time.Minute) }, false},
		"of before the retry": {func(f *fixture, r *policy.Refusal) {
			r.Since, r.At = f.now.Add(-3*time.Minute), f.now
			f.rec.Status.SharedCause = &group.SharedCause{Way: "it", Slots: []string{"db-1"}, Since: f.now.Add(-4 * time.Minute), Ended: f.now.Add(-time.Minute), SpecIndex: f.rec.SpecIndex}
		}, false},
	} {
		f := heals(5, "none")
		for _, i := range []int{1, 3} {
			s := &f.obs.Slots[i]
			s.Report = nil
			f.rec.Slots[i].UnavailableSince, f.rec.Slots[i].AvailableSince = f.now.Add(-5*time.Minute), time.Time{}
			s.Refusal = &policy.Refusal{Slot: s.Slot, InstanceID: s.Admission.InstanceID, BootID: "another", Proven: true, Code: "TCB_OUT_OF_DATE", At: f.now.Add(-2 * time.Minute)}
			c.edit(f, s.Refusal)
		}
		got := f.plan().Status.SharedCause
		if found := got != nil && got.Ended.IsZero(); found != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestR122_WhatPassesIsNoWay: a Boot that waits for its turn failed at nothing, and one that came
// late came.
func TestR122_WhatPassesIsNoWay(t *testing.T) {
	refused := func(f *fixture, code policy.Code) {
		for _, i := range []int{1, 3} {
			f.obs.Slots[i].Report = nil
			f.rec.Slots[i].UnavailableSince = f.now.Add(-2 * time.Minute)
			f.obs.Slots[i].Refusal = &policy.Refusal{Slot: f.obs.Slots[i].Slot, InstanceID: f.obs.Slots[i].Admission.InstanceID, BootID: "another", Proven: true,
				Code: code, At: f.now.Add(-time.Minute)}
		}
	}
	f := heals(5, "none")
	refused(f, policy.CodeInstanceConflict)
	if got := f.plan().Status.SharedCause; got != nil {
		t.Errorf("two wait for the leases of their last boots: %+v", got)
	}
	f = alike()
	for _, i := range []int{1, 3} {
		f.obs.Slots[i].Admission.AdmittedAt = f.now.Add(-time.Second)
	}
	if got := f.plan().Status.SharedCause; got != nil {
		t.Errorf("their boots came late: %+v", got)
	}
	// A cause that was found is over when a boot comes in again, ready or not.
	f = heals(5, "none")
	refused(f, policy.CodeTCBOutOfDate)
	f.rec.Status.SharedCause = f.plan().Status.SharedCause
	f.now = f.now.Add(time.Hour)
	f.fresh()
	f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-time.Minute)
	if got := f.plan().Status.SharedCause; f.rec.Status.SharedCause == nil || got == nil || got.Ended.IsZero() {
		t.Errorf("it stands: %+v", got)
	}
}

// TestR122_OneBootIsTriedMeanwhile: a quarter of an hour after the last one failed, of the Slots
// that the cause names and one at a time; a leader that takes over does not call it off.
func TestR122_OneBootIsTriedMeanwhile(t *testing.T) {
	later := func(by time.Duration) *fixture {
		f := alike()
		f.stopped(4)
		f.rec.Status.SharedCause = f.plan().Status.SharedCause
		f.now = f.now.Add(by)
		f.fresh()
		return f
	}
	f := later(trialEvery - time.Second)
	p := f.plan()
	wantExecutes(t, p)
	if want := f.now.Add(time.Second); p.Clock.After(want) || p.Clock.IsZero() {
		t.Errorf("looks again at %s, want %s", p.Clock, want)
	}
	f = later(trialEvery)
	f.rec.Slots[1].Heals = &group.Heals{Attempts: 1, LastAt: f.now.Add(-time.Hour)}
	f.rec.Slots[3].Heals = &group.Heals{Attempts: 1, LastAt: f.now.Add(-2 * time.Hour)}
	p = f.plan()
	wantExecutes(t, p, "RESTART db-3")
	op, ok := p.Begin(actionOf(t, p, "db-3"), 3, f.now)
	if !ok {
		t.Fatal("it does not begin")
	}
	op.Phase = operation.Drained
	f.rec.Operations = append(f.rec.Operations, op)
	if facts := f.facts(op); !facts.Safe || facts.Unwanted != "" {
		t.Errorf("unsafe: %q, unwanted: %q", facts.SafeReason, facts.Unwanted)
	}
	wantExecutes(t, f.plan()) // no other beside it
	f = later(trialEvery)
	for _, i := range []int{1, 3} {
		f.rec.Slots[i].Heals = &group.Heals{Attempts: 2 * group.DefaultMaxAttempts, LastAt: f.now.Add(-time.Hour)}
	}
	wantExecutes(t, f.plan()) // db-4 would tell nothing about the others
}

// TestR122_GroupsShareACause: of a group one failed boot is enough where one of another group
// failed in the same way; boots of others alone hold nobody. Any of them ends it when it comes.
func TestR122_GroupsShareACause(t *testing.T) {
	way := "the CVM does not boot: key service did not answer in # boot #"
	one := func(edit func(b *Boot)) *fixture {
		f := heals(3, "none")
		f.failedBoot(1, 5*time.Minute, operation.CauseBootError, strings.Replace(noKeys, "%d", "17", 1))
		b := Boot{Slot: "web-0", Way: way, At: f.now.Add(-time.Minute)}
		edit(&b)
		f.obs.Elsewhere = []Boot{b}
		return f
	}
	f := one(func(*Boot) {})
	p := f.plan()
	wantHeld(t, p, "db-1", HoldSharedCause)
	if got := p.Status.SharedCause; got == nil || strings.Join(got.Slots, " ") != "db-1 web-0" {
		t.Errorf("%+v", got)
	}
	f.rec.Status.SharedCause = p.Status.SharedCause
	f.now = f.now.Add(time.Minute)
	f.fresh()
	wantHeld(t, f.plan(), "db-1", HoldSharedCause)
	f.obs.Elsewhere = []Boot{{Slot: "web-0", AdmittedAt: f.now.Add(-time.Second)}}
	p = f.plan()
	wantExecutes(t, p, "RESTART db-1")
	if got := p.Status.SharedCause; got == nil || got.Ended.IsZero() {
		t.Errorf("a boot came, and it stands: %+v", got)
	}
	for name, edit := range map[string]func(b *Boot){
		"another way":  func(b *Boot) { b.Way = "the CVM does not boot: disk is full" },
		"it came":      func(b *Boot) { b.Way = "" },
		"long before":  func(b *Boot) { b.At = b.At.Add(-sharedWithin) },
		"no boot came": func(b *Boot) { b.Way = noBoot },
	} {
		if got := one(edit).plan().Status.SharedCause; got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	f = heals(3, "none").stopped(1)
	f.obs.Elsewhere = []Boot{{Slot: "web-0", Way: way, At: f.now.Add(-time.Minute)}, {Slot: "web-1", Way: way, At: f.now.Add(-time.Minute)}}
	p = f.plan()
	wantExecutes(t, p, "RESTART db-1")
	if p.Status.SharedCause != nil {
		t.Errorf("nothing of this group failed: %+v", p.Status.SharedCause)
	}
}

// TestR122_TheSlotsOfACauseAreToldInOrder: its own ones first, then others' by name, however they were read.
func TestR122_TheSlotsOfACauseAreToldInOrder(t *testing.T) {
	f := alike()
	way, at := f.plan().Status.SharedCause.Way, f.now.Add(-time.Minute)
	f.obs.Elsewhere = []Boot{{Slot: "web-2", Way: way, At: at}, {Slot: "api-0", Way: way, At: at}, {Slot: "web-1", Way: way, At: at}}
	if got, want := f.plan().Status.SharedCause.Slots, []string{"db-1", "db-3", "api-0", "web-1", "web-2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestR122_TwoDeadHostsAreNoCause: that no boot came says nothing about what two groups share.
func TestR122_TwoDeadHostsAreNoCause(t *testing.T) {
	f := heals(3, "none")
	f.failedBoot(1, 5*time.Minute, operation.CauseDeadline, "the CVM runs; waits for its boot to be admitted")
	f.obs.Elsewhere = []Boot{{Slot: "web-0", Way: noBoot, At: f.now.Add(-time.Minute)}}
	if got := f.plan().Status.SharedCause; got != nil {
		t.Errorf("%+v", got)
	}
}

// TestR122_WhatNobodyTriesAnyMoreIsNoEvidence: a cause ends an hour after the last boot that failed.
func TestR122_WhatNobodyTriesAnyMoreIsNoEvidence(t *testing.T) {
	for since, over := range map[time.Duration]bool{sharedFor - time.Minute: false, sharedFor + time.Minute: true} {
		f := heals(5, "none").stopped(4)
		f.stopped(1).tried(1, 10, 2*time.Hour)
		f.rec.Slots[1].UnavailableSince = f.now.Add(-3 * time.Hour)
		f.rec.Status.SharedCause = &group.SharedCause{Way: noBoot, Slots: []string{"db-1", "db-3"}, Since: f.now.Add(-since), SpecIndex: f.rec.SpecIndex}
		f.obs.Slots[3].Report = nil
		if got := f.plan().Status.SharedCause; got.Ended.IsZero() == over {
			t.Errorf("after %s: %+v", since, got)
		}
	}
}
