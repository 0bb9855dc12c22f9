package operation

import (
	"strings"
	"testing"
	"time"
)

func TestR4_OnlyANewBootAtTheWantedRevisionProvesTheUpdate(t *testing.T) {
	for name, edit := range map[string]func(*Facts){
		"the boot before":    func(f *Facts) { f.Admission.BootID = "boot-old" },
		"another revision":   func(f *Facts) { f.Admission.Revision = "A" },
		"another instance":   func(f *Facts) { f.Admission.InstanceID = "i-2" },
		"nobody admitted":    func(f *Facts) { f.Admission = nil },
		"the platform alone": func(f *Facts) { f.Admission = nil; f.Platform.Running = true },
	} {
		op, now := to(t, Update, Booting)
		f := available(now, now)
		edit(&f)
		_, effects := step(t, op, f, now, Booting)
		if len(effects) > 0 {
			t.Errorf("%s: effects %+v", name, effects)
		}
	}
}

func TestR8_SettlingIsContinuous(t *testing.T) {
	op, now := to(t, Update, Joining)
	op, _ = step(t, op, available(now, now), now, Settling)
	since := op.Seen.AvailableSince
	almost := since.Add(limits.MinReady - time.Nanosecond)
	op, _ = step(t, op, available(almost, since), almost, Settling)

	back := booted(almost)
	op, _ = step(t, op, back, almost, Joining)
	if !op.Seen.AvailableSince.IsZero() || !op.Outage.Until.IsZero() {
		t.Errorf("the clock runs on: %s, until %s", op.Seen.AvailableSince, op.Outage.Until)
	}
	again := almost.Add(time.Second)
	op, _ = step(t, op, available(again, again), again, Settling)
	if !op.Seen.AvailableSince.Equal(again) {
		t.Errorf("available since %s, want %s", op.Seen.AvailableSince, again)
	}
	full := again.Add(limits.MinReady)
	step(t, op, available(full, again), full, Done)
}

func TestR8_ABreakThatTheReportProvesRestartsTheClock(t *testing.T) {
	op, now := to(t, Update, Joining)
	op, _ = step(t, op, available(now, now), now, Settling)
	later := now.Add(limits.MinReady)
	op, _ = step(t, op, available(later, later.Add(-time.Second)), later, Settling)
	if !op.Seen.AvailableSince.Equal(later.Add(-time.Second)) {
		t.Errorf("available since %s", op.Seen.AvailableSince)
	}
}

func TestR8_AvailabilityFromBeforeTheBootDoesNotCount(t *testing.T) {
	op, now := to(t, Update, Joining)
	op, _ = step(t, op, available(now, start.Add(-time.Hour)), now, Settling)
	if op.Seen.AvailableSince.Before(op.Entered[Joining]) {
		t.Errorf("available since %s, joined %s", op.Seen.AvailableSince, op.Entered[Joining])
	}
}

func TestR11_AFailedListIsNoSetback(t *testing.T) {
	op, now := to(t, Update, Settling)
	f := available(now, op.Seen.AvailableSince)
	f.PlatformKnown, f.Platform, f.ReadySince = false, nil, time.Time{}
	next, effects := step(t, op, f, now, Settling)
	wantNoEffects(t, effects)
	if !next.Seen.AvailableSince.Equal(op.Seen.AvailableSince) {
		t.Error("the clock was reset")
	}
}

func TestR87_PLT09_TheHealthyDeadlineRunsFromTheAcceptedCall(t *testing.T) {
	for _, phase := range []Phase{Booting, Joining, Settling} {
		op, _ := to(t, Update, phase)
		if want := op.Entered[Booting].Add(limits.Healthy); !op.Times.HealthyBy.Equal(want) {
			t.Errorf("%s: deadline %s, want %s", phase, op.Times.HealthyBy, want)
		}
		late := op.Times.HealthyBy
		f := rebooting(late)
		if phase == Settling {
			// the deadline includes min_ready: a later min_ready does not save the step
			f = available(late, late.Add(-time.Second))
			op.Seen.AvailableSince = late.Add(-time.Second)
		}
		op, _ = step(t, op, f, late, Failed)
		if op.Failure.Cause != CauseDeadline {
			t.Errorf("%s: cause %s", phase, op.Failure.Cause)
		}
	}
}

func TestR87_ArrivingExactlyAtTheDeadlineCounts(t *testing.T) {
	op, _ := to(t, Update, Settling)
	late := op.Times.HealthyBy
	op.Seen.AvailableSince = late.Add(-limits.MinReady)
	step(t, op, available(late, op.Seen.AvailableSince), late, Done)
}

func TestR87_APauseStopsTheClock(t *testing.T) {
	op, _ := to(t, Update, Booting)
	late := op.Times.HealthyBy
	f := rebooting(late)
	step(t, op, f, late, Failed)
	f.Paused = true
	op, _ = step(t, op, f, late, Booting)
	f.Paused = false
	if op, _ = step(t, op, f, late.Add(limits.Healthy-time.Second), Booting); !op.Times.HealthyBy.Equal(late.Add(limits.Healthy)) {
		t.Errorf("the deadline is %s", op.Times.HealthyBy)
	}
}

func TestR89_ABootErrorEndsTheWaitingAtOnce(t *testing.T) {
	for _, phase := range []Phase{Booting, Joining} {
		op, now := to(t, Update, phase)
		f := rebooting(now)
		f.Platform.InProgress, f.Platform.BootError = false, "no such image"
		op, _ = step(t, op, f, now, Failed)
		if op.Failure.Cause != CauseBootError || !strings.Contains(op.Reason, "no such image") {
			t.Errorf("%s: %s %q", phase, op.Failure.Cause, op.Reason)
		}
	}
}

// TestAStepThatFailsInItsBootNamesTheNewImages: a dstack guest reports that its containers failed to start. A hanging
// pull gives no report. Neither report names the image.
func TestAStepThatFailsInItsBootNamesTheNewImages(t *testing.T) {
	images := []string{"team/web@sha256:01", "team/db@sha256:02", "team/log@sha256:03", "team/more@sha256:04"}
	const named = "; an image that is new to this CVM may not be pullable: team/web@sha256:01, team/db@sha256:02, team/log@sha256:03 and 1 more"
	for name, c := range map[string]struct {
		facts func(*Facts)
		late  bool
		cause Cause
		named bool
	}{
		"containers do not start": {func(f *Facts) { f.Platform.BootError = "failed to start containers" }, false, CauseBootError, true},
		"another boot error":      {func(f *Facts) { f.Platform.BootError = "requesting app keys" }, false, CauseBootError, false},
		"nothing attests":         {func(f *Facts) { f.Platform.Running = true }, true, CauseDeadline, true},
		"no image is new":         {func(f *Facts) { f.Platform.Running, f.NewImages = true, nil }, true, CauseDeadline, false},
		"the boot was refused": {func(f *Facts) {
			f.Platform.Running, f.Refusal = true, &RefusalView{Code: "REVISION_NOT_ALLOWED", At: f.ObservedAt}
		}, true, CauseDeadline, false},
	} {
		op, now := to(t, Update, Booting)
		if c.late {
			now = op.Times.HealthyBy
		}
		f := rebooting(now)
		f.Platform.InProgress, f.NewImages, f.ObservedAt = false, images, now
		c.facts(&f)
		op, _ = step(t, op, f, now, Failed)
		if op.Failure.Cause != c.cause || strings.HasSuffix(op.Reason, named) != c.named || strings.Contains(op.Reason, "pullable") != c.named {
			t.Errorf("%s: %s %q", name, op.Failure.Cause, op.Reason)
		}
	}
}

func TestR89_AnOldBootErrorProvesNothingAboutTheNewBoot(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := quiet(now)
	f.Platform.BootError = "no such image"
	op, _ = step(t, op, f, now, Acting)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone}
	op, _ = step(t, op, f, now, Booting)
	op, _ = step(t, op, f, now, Booting) // still the old error text
	op, _ = step(t, op, rebooting(now), now, Booting)
	f.Call = nil
	step(t, op, f, now, Failed) // the error text returned after it was cleared
}

func TestRefusedAdmissionIsShownAndWaitedFor(t *testing.T) {
	op, now := to(t, Update, Booting)
	f := rebooting(now)
	f.Refusal = &RefusalView{Code: "REVISION_NOT_ALLOWED", Message: "not now", At: now}
	op, _ = step(t, op, f, now, Booting)
	if !strings.Contains(op.Reason, "REVISION_NOT_ALLOWED") {
		t.Errorf("reason %q", op.Reason)
	}
	f.Refusal.At = op.Call.IssuedAt.Add(-time.Second)
	op, _ = step(t, op, f, now, Booting)
	if strings.Contains(op.Reason, "not now") && f.Refusal.At.After(op.Call.IssuedAt) {
		t.Errorf("reason %q speaks of an old refusal", op.Reason)
	}
	step(t, op, available(now, now), now, Joining)
}

func TestR80_ResultsOfPostLaunch(t *testing.T) {
	for state, want := range map[StepState]Phase{StepDone: Settling, StepAborted: Failed, StepFailed: Failed, StepHeld: Joining, StepRunning: Joining} {
		op, now := to(t, Update, Joining)
		f := available(now, now)
		f.PostLaunch, f.Steps = true, answer(VerbPostLaunch, state)
		step(t, op, f, now, want)
	}
}

// TestR131_ThePlatformMustShowSizeAndImage: an available Boot proves only its Revision. The platform must show the size
// and image of its CVM.
func TestR131_ThePlatformMustShowSizeAndImage(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Facts)
		want string // of the reason; "": it settles
	}{
		"all of it":            {func(*Facts) {}, ""},
		"nothing":              {func(f *Facts) { f.Platform = nil }, ""},
		"another compose hash": {func(f *Facts) { f.Platform.ComposeHash = "hash-A" }, "compose hash"},
		"another size":         {func(f *Facts) { f.WantedShape.InstanceType = "tdx.large" }, "instance type"},
	} {
		op, now := to(t, Update, Joining)
		f := available(now, now)
		f.Platform.Shape = Shape{InstanceType: "tdx.small"}
		c.edit(&f)
		want := Settling
		if c.want != "" {
			want = Joining
		}
		if op, _ = step(t, op, f, now, want); !strings.Contains(op.Reason, c.want) {
			t.Errorf("%s: %q", name, op.Reason)
		}
		if c.want != "" {
			late := op.Times.HealthyBy
			f.ReadySince, f.ObservedAt = late, late
			step(t, op, f, late, Failed)
		}
	}
	op, now := to(t, Restart, Joining) // a restart does not change the size
	f := available(now, now)
	f.Admission.Revision, f.WantedShape.InstanceType, f.Platform.Shape = "A", "tdx.large", Shape{InstanceType: "tdx.small"}
	step(t, op, f, now, Settling)
}

// TestR87_ABootingStepRecordsItsCVMAndItsStart: the step records the new CVM, and the time at which the platform first
// reported that the CVM runs.
func TestR87_ABootingStepRecordsItsCVMAndItsStart(t *testing.T) {
	for _, kind := range []Kind{Create, Update} {
		op, now := to(t, kind, Booting)
		op.CVM.VMUUID, op.CVM.InstanceID = "", ""
		f := rebooting(now)
		op, _ = step(t, op, f, now, Booting)
		if made := op.CVM.VMUUID == "vm-1" && op.CVM.InstanceID == "i-1"; made != (kind == Create) {
			t.Errorf("%s: names CVM %q", kind, op.CVM.VMUUID)
		}
		if !op.Seen.RunningSince.IsZero() {
			t.Errorf("%s: runs since %s, and does not", kind, op.Seen.RunningSince)
		}
		f.Platform.Running, f.Platform.InProgress = true, false
		now = now.Add(time.Second)
		op, _ = step(t, op, f, now, Booting)
		later := now.Add(time.Second)
		if op, _ = step(t, op, f, later, Booting); !op.Seen.RunningSince.Equal(now) || !strings.HasPrefix(op.Reason, "the CVM runs") {
			t.Errorf("%s: runs since %s, want %s: %q", kind, op.Seen.RunningSince, now, op.Reason)
		}
	}
	op, now := to(t, Update, Booting) // the CVM that is about to stop runs
	f := quiet(now)
	if op, _ = step(t, op, f, now, Booting); !op.Seen.RunningSince.IsZero() {
		t.Errorf("runs since %s with the compose file of before", op.Seen.RunningSince)
	}
}

// TestR8_AFallBackSaysWhy, and a deletion waits for the listing, not for an agent.
func TestR8_AFallBackSaysWhy(t *testing.T) {
	op, now := to(t, Update, Joining)
	op, _ = step(t, op, available(now, now), now, Settling)
	f := available(now, now)
	f.Admission.BootID = "boot-old" // an available old Boot is not the awaited Boot
	if op, _ = step(t, op, f, now, Joining); op.Reason != "fell back: not available" {
		t.Errorf("reason %q", op.Reason)
	}
	op, now = to(t, Delete, Booting)
	f = quiet(now)
	f.PlatformKnown, f.Platform = false, nil
	step(t, op, f, now, Booting)
}

// TestR89_ABootErrorOfAServingMemberIsOld: the boot error belongs to an earlier boot. A step whose quorum depends on
// other members is done.
func TestR89_ABootErrorOfAServingMemberIsOld(t *testing.T) {
	op, now := to(t, Update, Joining)
	f := available(now, now)
	f.Platform.BootError = "no such image"
	step(t, op, f, now, Settling)
	f = booted(now)
	f.Platform.InProgress, f.Platform.BootError = true, "no such image"
	step(t, op, f, now, Joining)
	f = booted(now)
	f.AwaitsQuorum = true
	if op, _ := step(t, op, f, now, Done); !strings.Contains(op.Reason, "quorum") {
		t.Errorf("reason %q", op.Reason)
	}
	f.Admission.BootID = "boot-old"
	step(t, op, f, now, Joining)
	f = available(now, now)
	f.AwaitsQuorum = true // the member serves: the step waits for nothing
	step(t, op, f, now, Settling)
}
