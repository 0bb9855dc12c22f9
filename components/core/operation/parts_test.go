package operation

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// reshaped is a CVM that runs the wanted document with another shape than wanted.
func reshaped(now time.Time) Facts {
	f := quiet(now)
	f.WantedHash = f.Platform.ComposeHash
	f.Platform.Shape = Shape{InstanceType: "tdx.small", OSImage: "dstack-0.5.7", DiskGB: 20}
	f.WantedShape = Shape{InstanceType: "tdx.large", OSImage: "dstack-0.5.8", DiskGB: 40}
	return f
}

// TestAnImageThatWasChangedWithTheSizeIsNotChangedAgain: one call, one boot.
func TestAnImageThatWasChangedWithTheSizeIsNotChangedAgain(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := reshaped(now)
	op, effects := step(t, op, f, now, Acting)
	if len(effects) != 1 || effects[0].Call != PartResources || effects[0].Shape != f.WantedShape {
		t.Fatalf("effects %+v", effects)
	}
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone, OSImage: true}
	op, effects = step(t, op, f, now.Add(time.Second), Booting)
	wantNoEffects(t, effects)
	if want := []Part{PartOSImage, PartResources}; op.Call.Number != 1 || !slices.Equal(op.Call.Applied, want) {
		t.Errorf("%d calls, applied %v, want one and %v", op.Call.Number, op.Call.Applied, want)
	}
}

// TestAnUpdateMakesEachChangeOnceInOrder: one Operation makes all changes, one call each. The next call follows when
// the platform shows the previous part. Done means that the platform and the Boot show all changes.
func TestAnUpdateMakesEachChangeOnceInOrder(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := reshaped(now)
	op, effects := step(t, op, f, now, Acting)
	if len(effects) != 1 || effects[0].Call != PartResources || effects[0].Shape != f.WantedShape {
		t.Fatalf("effects %+v", effects)
	}
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone}
	op, effects = step(t, op, f, now.Add(time.Second), Acting)
	wantNoEffects(t, effects)
	f.Call = nil
	op, effects = step(t, op, f, now.Add(2*time.Second), Acting) // not shown yet
	wantNoEffects(t, effects)
	f.Platform.Shape.InstanceType, f.Platform.Shape.DiskGB = "tdx.large", 40
	op, effects = step(t, op, f, now.Add(3*time.Second), Drained)
	wantNoEffects(t, effects)
	f.Unwanted = "the spec moved on" // half of the change is applied: too late to call the step off
	op, effects = step(t, op, f, now.Add(4*time.Second), Acting)
	if len(effects) != 1 || effects[0].Call != PartOSImage || effects[0].Shape != (Shape{OSImage: "dstack-0.5.8"}) || effects[0].Number != 2 {
		t.Fatalf("effects %+v", effects)
	}
	f.Unwanted = ""
	f.Call = &CallResult{Number: 2, Outcome: OutcomeDone}
	f.Platform.Shape.OSImage = "dstack-0.5.8"
	op, effects = step(t, op, f, now.Add(5*time.Second), Booting)
	wantNoEffects(t, effects)
	if !slices.Equal(op.Call.Applied, []Part{PartResources, PartOSImage}) {
		t.Errorf("applied %v", op.Call.Applied)
	}
	shown := available(now.Add(6*time.Second), now)
	shown.Admission.Revision, shown.WantedShape = op.To, f.WantedShape
	shown.Platform.Shape = Shape{InstanceType: "tdx.large", OSImage: "dstack-0.5.7", DiskGB: 40}
	op, _ = step(t, op, shown, now.Add(6*time.Second), Joining)
	op, _ = step(t, op, shown, now.Add(7*time.Second), Joining)
	if !strings.Contains(op.Reason, "OS image") {
		t.Errorf("reason %q", op.Reason)
	}
	shown.Platform.Shape.OSImage = "dstack-0.5.8"
	step(t, op, shown, now.Add(8*time.Second), Settling)
}

func TestR66_AChangeOfShapeIsReadBack(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := reshaped(now)
	f.WantedShape = Shape{OSImage: "dstack-0.5.8"}
	op, _ = step(t, op, f, now, Acting)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeUnknown}
	op, _ = step(t, op, f, now.Add(time.Second), Acting)
	f.Call = nil
	at := now.Add(limits.Settle - time.Second) // the effect may still be on its way
	f.ObservedAt = at
	op, effects := step(t, op, f, at, Acting)
	wantNoEffects(t, effects)
	late := f
	late.Platform = new(PlatformView)
	*late.Platform = *f.Platform
	late.Platform.Shape.OSImage = "dstack-0.5.8"
	step(t, op, late, at, Booting)
	at = now.Add(limits.Settle + time.Second)
	f.ObservedAt = at
	_, effects = step(t, op, f, at, Acting)
	if len(effects) != 1 || effects[0].Number != 2 {
		t.Errorf("effects %+v, want the call again", effects)
	}
}

// TestAWedgedStepFailsAfterTwoListings: two listings lack the CVM, or show another CVM. No awaited event can come then.
func TestAWedgedStepFailsAfterTwoListings(t *testing.T) {
	for _, phase := range []Phase{Acting, Booting, Joining, Settling} {
		for name, edit := range map[string]func(*Facts){
			"vanished": func(f *Facts) { f.Platform, f.ReadySince = nil, time.Time{} },
			"replaced": func(f *Facts) { f.Platform.VMUUID, f.ReadySince = "vm-2", time.Time{} },
		} {
			op, now := to(t, Update, phase)
			f := rebooting(now)
			edit(&f)
			op, _ = Advance(op, f, now)
			again, _ := Advance(op, f, now.Add(time.Minute)) // the same listing
			if again.Phase.Ended() {
				t.Errorf("%s, %s: ended by one listing: %s", phase, name, again.Reason)
			}
			f.ObservedAt = now.Add(time.Second)
			op, _ = step(t, op, f, now.Add(time.Second), Failed)
			if op.Failure.Cause != CauseVanished && op.Failure.Cause != CauseReplaced {
				t.Errorf("%s, %s: cause %s", phase, name, op.Failure.Cause)
			}
		}
	}
}

func TestACVMThatIsListedAgainIsNotGone(t *testing.T) {
	op, now := to(t, Update, Booting)
	f := rebooting(now)
	there := f.Platform
	for i := range 6 {
		f.ObservedAt = now.Add(time.Duration(i) * time.Second)
		f.Platform = there
		if i%2 == 0 {
			f.Platform = nil
		}
		op, _ = step(t, op, f, f.ObservedAt, Booting)
	}
}

func TestAnOperatorResolvesAnUndecidedCall(t *testing.T) {
	undecided := func() (Operation, Facts, time.Time) {
		op, now := to(t, Restart, Acting)
		f := quiet(now)
		f.Call = &CallResult{Number: 1, Outcome: OutcomeUnknown}
		op, _ = step(t, op, f, now, Acting)
		f.Call = nil
		return op, f, now
	}
	op, f, now := undecided()
	f.Resolved = &Resolution{ID: "r1", As: Done, By: "somebody", Reason: "seen on the console"}
	op, _ = step(t, op, f, now, Booting) // a Boot must still prove the Revision
	if op.Request.ResolvedBy != "r1" || !strings.Contains(op.Reason, "seen on the console") {
		t.Errorf("resolved by %q: %s", op.Request.ResolvedBy, op.Reason)
	}
	if again, effects := Advance(op, f, now); again.Phase != Booting || len(effects) > 0 {
		t.Errorf("the same word twice: %s, effects %+v", again.Phase, effects)
	}
	op, f, now = undecided()
	f.Resolved = &Resolution{ID: "r2", As: Failed, Reason: "the host is gone"}
	op, effects := step(t, op, f, now, Failed)
	wantOrder(t, effects, VerbCancelDrain)
	if order, ok := CurrentOrder(op); op.Failure.Cause != CauseResolved || !ok || order.Verb != VerbCancelDrain {
		t.Errorf("cause %s, order %+v", op.Failure.Cause, order)
	}
	op, now = to(t, Update, Booting)
	f = rebooting(now)
	f.Resolved = &Resolution{ID: "r3", As: Done} // an operator cannot admit a Boot
	op, _ = step(t, op, f, now, Booting)
	if op.Request.ResolvedBy != "r3" {
		t.Error("the word is not noted")
	}
}

// TestI2_ACallThatWasNotMadeIsNoEffect: a call that the last check stopped had no effect. The step repeats the call or
// is called off.
func TestI2_ACallThatWasNotMadeIsNoEffect(t *testing.T) {
	op, now := to(t, Update, Acting)
	f := quiet(now)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeNotMade, Message: "quorum: too few"}
	op, _ = step(t, op, f, now, Acting)
	f.Call, f.Unwanted = nil, "the spec moved on"
	op, effects := step(t, op, f, now.Add(5*time.Second), Aborted)
	wantOrder(t, effects, VerbCancelDrain)
	if !op.CameToNothing() {
		t.Error("it is told to have had an effect")
	}
}

func TestMayCallIsTheLastLook(t *testing.T) {
	op, now := to(t, Update, Acting)
	for name, edit := range map[string]func(*Facts){
		"unsafe":    func(f *Facts) { f.Safe = false },
		"unwanted":  func(f *Facts) { f.Unwanted = "moved on" },
		"paused":    func(f *Facts) { f.Paused = true },
		"replaced":  func(f *Facts) { f.Platform.VMUUID = "vm-2" },
		"vanished":  func(f *Facts) { f.Platform = nil },
		"busy":      func(f *Facts) { f.Platform.InProgress = true },
		"duplicate": func(f *Facts) { f.Duplicates = 1 },
		"blind":     func(f *Facts) { f.PlatformKnown = false },
	} {
		f := quiet(now)
		if reason, ok := MayCall(op, f); !ok {
			t.Fatalf("quiet: %s", reason)
		}
		edit(&f)
		if _, ok := MayCall(op, f); ok {
			t.Errorf("%s: may be called", name)
		}
	}
}

// TestR86_AMemberThatLeadsBetweenTwoPartsHandsOverAgain: the Boot that came with the first part gets one drain order of
// its own, if a successor exists.
func TestR86_AMemberThatLeadsBetweenTwoPartsHandsOverAgain(t *testing.T) {
	op, now := to(t, Update, Drained)
	op.Call.Applied, op.Call.Part, op.Times.HealthyBy, op.Before.BootID = []Part{PartResources}, PartResources, now.Add(time.Minute), "boot-1"
	f := quiet(now)
	f.Admission = &AdmissionView{BootID: "boot-2", InstanceID: op.CVM.InstanceID, Revision: op.From}
	f.Leads, f.Safe, f.SafeReason = true, false, "it leads"
	alone, _ := step(t, op, f, now, Drained)
	if alone.Attempt != op.Attempt {
		t.Error("asked to hand over, and nobody can take over")
	}
	f.HandOver = &Transfer{ExpectedLeader: op.Slot, Candidates: []string{"db-9"}}
	asked, effects := step(t, op, f, now, Draining)
	if len(effects) != 1 || effects[0].Verb != VerbDrain || asked.Attempt != op.Attempt+1 || asked.Transfer.ExpectedLeader != op.Slot || !asked.Transfer.Relief || !asked.Call.IssuedAt.IsZero() ||
		!asked.Times.HealthyBy.After(asked.Times.DrainBy) || asked.Times.DrainBy.Before(now) {
		t.Fatalf("effects %+v, %+v", effects, asked)
	}
	f.Steps = []StepReport{{Operation: op.ID, Verb: VerbDrain, Attempt: asked.Attempt, State: StepDone}}
	drained, _ := step(t, asked, f, now, Drained)
	if again, _ := step(t, drained, f, now, Drained); again.Attempt != asked.Attempt {
		t.Error("one Boot is asked twice at once")
	}
}

// TestR86_AHandOverBetweenTwoPartsThatCameToNothingIsAskedForAgain, with growing pauses, and within the time of the
// first order. A newer Boot has its own time.
func TestR86_AHandOverBetweenTwoPartsThatCameToNothingIsAskedForAgain(t *testing.T) {
	op, now := to(t, Update, Drained)
	op.Call.Applied, op.Call.Part, op.Times.HealthyBy, op.Before.BootID = []Part{PartResources}, PartResources, now.Add(time.Minute), "boot-1"
	f := quiet(now)
	f.Admission = &AdmissionView{BootID: "boot-2", InstanceID: op.CVM.InstanceID, Revision: op.From}
	f.Leads, f.Safe, f.SafeReason, f.HandOver = true, false, "it leads", &Transfer{ExpectedLeader: op.Slot, Candidates: []string{"db-9"}}
	op, _ = step(t, op, f, now, Draining)
	asked, deadline := []time.Duration{0}, op.Times.HealthyBy
	for began, end := now, now.Add(2*(limits.Drain+limits.Healthy)); !op.Phase.Ended() && now.Before(end); {
		before := op
		f.Steps = []StepReport{{Operation: op.ID, Verb: VerbDrain, Attempt: op.Attempt, State: StepAborted, Message: "busy"}}
		var effects []Effect
		if op, effects = Advance(op, f, now); op.Phase == Draining && before.Phase == Drained {
			asked = append(asked, now.Sub(began))
			if len(effects) != 1 || effects[0].Verb != VerbDrain || op.Attempt != before.Attempt+1 || !op.Transfer.Relief || !op.Times.HealthyBy.Equal(deadline) {
				t.Errorf("effects %+v, %+v", effects, op)
			}
		}
		if Same(op, before) {
			now = now.Add(time.Second)
		}
	}
	want := []time.Duration{0, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute}
	if op.Phase != Failed || op.Failure.Cause != CauseDeadline || now.Before(deadline) || !slices.Equal(asked, want) {
		t.Errorf("asked at %v; %s at %s, %s", asked, op.Phase, now, op.Reason)
	}

	op, now = to(t, Update, Drained)
	op.Call.Applied, op.Before.BootID, op.Times.HealthyBy, op.Call.IssuedAt = []Part{PartResources}, "boot-2", now.Add(time.Minute), time.Time{}
	f.Admission = &AdmissionView{BootID: "boot-3", InstanceID: op.CVM.InstanceID, Revision: op.From}
	if op, _ = step(t, op, f, now, Draining); !op.Times.HealthyBy.Equal(now.Add(limits.Drain + limits.Healthy)) {
		t.Error("a Boot since has no time of its own")
	}
}

// TestR86_ALeaderAfterANotedPartDrainsAgain: the first part did not end the old Boot. The old Boot leads again before
// the second part is called, or repeated.
func TestR86_ALeaderAfterANotedPartDrainsAgain(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := quiet(now)
	op.Call.Applied, op.Call.Part, op.Times.HealthyBy, op.Before.BootID = []Part{PartResources}, PartResources, now.Add(time.Hour), "boot-1"
	op.Call.IssuedAt = now.Add(-f.Limits.Settle)
	f.Admission = &AdmissionView{BootID: "boot-1", InstanceID: op.CVM.InstanceID, Revision: op.From}
	f.Leads, f.Safe, f.SafeReason, f.HandOver = true, false, "it leads", &Transfer{ExpectedLeader: op.Slot, Candidates: []string{"db-9"}}
	f.LastReportOf, f.LastReportAt = "boot-1", now.Add(-time.Second)
	step(t, op, f, now, Drained) // the listing may be older than the call's effect
	f.LastReportAt = now
	asked, _ := step(t, op, f, now, Draining)
	f.Steps = []StepReport{{Operation: op.ID, Verb: VerbDrain, Attempt: asked.Attempt, State: StepDone}}
	drained, _ := step(t, asked, f, now, Drained)
	step(t, drained, f, now, Drained) // once

	op, f.Steps = op.enter(Acting, now), nil
	op.Call.Outcome, op.Call.Number = OutcomeBusy, 2
	later := now.Add(MaxWait)
	f.ObservedAt, f.LastReportAt = later, later
	step(t, op, f, later, Drained)
}

// TestAReplacedCVMIsNotGoneByOneListing: its deletion was never called, and the listing may be older than the CVM.
func TestAReplacedCVMIsNotGoneByOneListing(t *testing.T) {
	op, now := begun(Replace, skipped), start
	op.CVM.Incarnation = 1
	f := quiet(now)
	op, _ = step(t, op, f, now, Acting)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeBusy}
	op, _ = step(t, op, f, now, Acting)
	now = now.Add(time.Minute)
	there := f.Platform
	for n := range 3 { // the platform does not answer
		blind := f
		blind.Call, blind.Platform, blind.PlatformKnown, blind.ObservedAt = nil, nil, false, now.Add(time.Duration(n)*time.Second)
		if op, _ = step(t, op, blind, blind.ObservedAt, Acting); op.CVM.VMUUID == "" || !op.Seen.GoneSince.IsZero() {
			t.Fatal("no listing unbinds it")
		}
	}
	now = now.Add(time.Minute)
	f.Call, f.Platform, f.ObservedAt = nil, nil, now
	op, effects := step(t, op, f, now, Acting)
	wantNoEffects(t, effects)
	if op.CVM.VMUUID == "" {
		t.Fatal("one listing unbinds it")
	}
	listed := f
	listed.Platform, listed.ObservedAt = there, now.Add(time.Second)
	if _, effects := step(t, op, listed, now.Add(time.Second), Acting); len(effects) != 1 || effects[0].Call != PartDelete {
		t.Errorf("it is listed again: effects %+v", effects)
	}
	f.ObservedAt = now.Add(time.Second)
	if op, _ = step(t, op, f, now.Add(time.Second), Drained); op.CVM.VMUUID != "" {
		t.Errorf("two listings lack it, and it is still named")
	}
}

func TestAReplaceRemovesTheOldCVMFirst(t *testing.T) {
	op, now := begun(Replace, skipped), start
	op.CVM.Incarnation = 1
	f := quiet(now)
	op, effects := step(t, op, f, now, Acting)
	if len(effects) != 1 || effects[0].Call != PartDelete || effects[0].VMUUID != "vm-1" {
		t.Fatalf("effects %+v", effects)
	}
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone}
	op, _ = step(t, op, f, now, Acting)
	f.Call = nil
	op, effects = step(t, op, f, now, Acting) // fenced: not before the old CVM is gone (R128)
	wantNoEffects(t, effects)
	f.Platform = nil
	op, _ = step(t, op, f, now, Drained)
	if op.CVM.VMUUID != "" || op.CVM.InstanceID != "" {
		t.Fatalf("still names %s", op.CVM.VMUUID)
	}
	op, effects = step(t, op, f, now, Acting)
	if len(effects) != 1 || effects[0].Call != PartCreate {
		t.Fatalf("effects %+v", effects)
	}
	f.Call = &CallResult{Number: 2, Outcome: OutcomeDone, VMUUID: "vm-9", InstanceID: "i-9"}
	op, _ = step(t, op, f, now, Booting)
	if op.CVM.VMUUID != "vm-9" {
		t.Errorf("names %q", op.CVM.VMUUID)
	}
	gone := begun(Replace, skipped)
	gone.CVM.VMUUID, gone.CVM.InstanceID = "", ""
	f = quiet(now)
	f.Platform = nil
	gone, effects = step(t, gone, f, now, Acting)
	if len(effects) != 1 || effects[0].Call != PartCreate {
		t.Errorf("effects %+v, want the creation alone", effects)
	}
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone, VMUUID: "vm-9", InstanceID: "i-9"}
	f.Platform = &PlatformView{VMUUID: "vm-9", InstanceID: "i-9", InProgress: true}
	gone, effects = step(t, gone, f, now, Booting) // the new CVM is not removed again
	wantNoEffects(t, effects)
	for range 3 {
		f.Call, f.Platform.InProgress = nil, false
		gone, effects = step(t, gone, f, now, Booting)
		wantNoEffects(t, effects)
	}
}

// TestR45_AStepDoesNotWaitForTheQuorumThatTheOthersRestore: the missing quorum may depend on the very steps that wait
// for this member.
func TestR45_AStepDoesNotWaitForTheQuorumThatTheOthersRestore(t *testing.T) {
	op, now := to(t, Update, Joining)
	f := booted(now)
	f.Admission.Revision, f.ReadyReason, f.AwaitsQuorum = op.To, "no leader", true
	op, _ = step(t, op, f, now, Done)
	if op.Times.Ended.IsZero() {
		t.Error("not ended")
	}
	op, now = to(t, Update, Joining)
	f.Admission.Revision = "another"
	step(t, op, f, now, Joining)
}

// TestARestartIsProvedAgainstTheBootAtTheCall: another Boot must follow the Boot that held the Slot at the call. An
// agent that restarted before the call proves nothing.
func TestARestartIsProvedAgainstTheBootAtTheCall(t *testing.T) {
	op, now := to(t, Restart, Drained)
	f := quiet(now)
	f.Admission.BootID, f.Admission.Revision = "boot-agent-restarted", op.To
	op, _ = step(t, op, f, now, Acting)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeUnknown}
	op, _ = step(t, op, f, now, Acting)
	f.Call = nil
	step(t, op, f, now, Acting)
	f.Admission.BootID = "boot-2"
	step(t, op, f, now, Acting) // the Boot may be of an earlier step, and the restart may follow
	now = now.Add(limits.Settle)
	f.ObservedAt = now
	step(t, op, f, now, Booting)
}

// TestALeaderWhoseClockIsBehindDoesNotWaitForTheOtherOne: two leaders' clocks differ, and the new leader does not wait
// for the difference.
func TestALeaderWhoseClockIsBehindDoesNotWaitForTheOtherOne(t *testing.T) {
	op, now := to(t, Update, Draining)
	behind := now.Add(-10 * time.Minute)
	deadline := op.Times.DrainBy
	f := quiet(behind)
	f.Term = op.Term + 1
	op, _ = step(t, op, f, behind, Draining)
	if want := deadline.Add(-10 * time.Minute); op.Times.DrainBy.After(want) {
		t.Errorf("deadline %s, want at most %s", op.Times.DrainBy, want)
	}
	again, _ := Advance(op, f, behind)
	if !Same(op, again) {
		t.Error("it is written again and again")
	}
}

// TestR143_EnvIsGivenInAdditionToAnotherShape: no platform shows env. New env values get a call of their own, in
// addition to the calls for the shape.
func TestR143_EnvIsGivenInAdditionToAnotherShape(t *testing.T) {
	op, now := to(t, Update, Drained)
	for what, edit := range map[string]func(*Facts){
		"the template has another env":         func(f *Facts) { f.EnvDiffers = true },
		"the Slot has other values of its own": func(f *Facts) { f.OwnEnv, f.GivenEnv = "red", "blue" },
	} {
		f := reshaped(now)
		if got := op.parts(f); !slices.Equal(got, []Part{PartResources, PartOSImage}) {
			t.Fatalf("the shape alone: %v", got)
		}
		edit(&f)
		if got := op.parts(f); !slices.Equal(got, []Part{PartResources, PartOSImage, PartCompose}) {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestR112_AStoppedCVMIsStartedAfterItsUpdate: a platform may only note a change of a CVM that is stopped. No boot
// would come, and the update that was to repair it would fail by its deadline.
func TestR112_AStoppedCVMIsStartedAfterItsUpdate(t *testing.T) {
	updated := func(edit func(f *Facts)) (Operation, Facts, time.Time) {
		op, now := to(t, Update, Drained)
		f := quiet(now)
		f.Platform.Running, f.Platform.Stopped = false, true
		edit(&f)
		op, effects := step(t, op, f, now, Acting)
		wantCall(t, effects, Update, 1)
		f.Call = &CallResult{Number: 1, Outcome: OutcomeDone}
		op, _ = step(t, op, f, now, Booting)
		f.Call = nil
		f.Platform.Running, f.Platform.Stopped, f.Platform.ComposeHash = false, true, f.WantedHash
		return op, f, now
	}
	op, f, now := updated(func(*Facts) {})
	settled := now.Add(f.Limits.Settle)
	f.ObservedAt = settled
	early := f
	early.ObservedAt = settled.Add(-time.Second)
	step(t, op, early, settled, Booting) // the effect may still show
	op, _ = step(t, op, f, settled, Drained)
	op, effects := step(t, op, f, settled, Acting)
	if len(effects) != 1 || effects[0].Call != PartRestart || effects[0].Number != 2 {
		t.Fatalf("effects %+v", effects)
	}
	f.Call = &CallResult{Number: 2, Outcome: OutcomeDone}
	op, _ = step(t, op, f, settled, Booting)
	f.Call, f.ObservedAt = nil, settled.Add(f.Limits.Settle)
	step(t, op, f, f.ObservedAt, Booting) // once

	op, f, now = updated(func(f *Facts) { f.Platform.Running, f.Platform.Stopped = true, false })
	f.ObservedAt = now.Add(f.Limits.Settle)
	step(t, op, f, f.ObservedAt, Booting) // the CVM ran before, so the change stopped it

	op, f, now = updated(func(*Facts) {})
	f.Platform.Running, f.Platform.Stopped = true, false
	op, _ = step(t, op, f, now.Add(time.Second), Booting)
	f.Platform.Running, f.Platform.Stopped, f.ObservedAt = false, true, now.Add(f.Limits.Settle)
	step(t, op, f, f.ObservedAt, Booting) // the CVM booted, and stopped automatically
}

// TestR66_AnAcceptedChangeThatDoesNotShowIsShownAsUndecided: the next change waits for as long as the first one is
// not seen, and the operator learns how to decide.
func TestR66_AnAcceptedChangeThatDoesNotShowIsShownAsUndecided(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := reshaped(now)
	op, _ = step(t, op, f, now, Acting)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone}
	op, _ = step(t, op, f, now, Acting)
	f.Call = nil
	for after, undecided := range map[time.Duration]bool{limits.Unknown - time.Second: false, limits.Unknown: true} {
		f.ObservedAt = now.Add(after)
		next, effects := step(t, op, f, now.Add(after), Acting)
		wantNoEffects(t, effects)
		if got := strings.Contains(next.Reason, "cadre operation mark-succeeded|mark-failed op"); got != undecided {
			t.Errorf("after %s: %q", after, next.Reason)
		}
	}
}

// TestAChangeThatIsThereAlreadyIsNotCalled: the platform changed the image together with the size and did not say so.
// The step has no change left, and waits for the boot.
func TestAChangeThatIsThereAlreadyIsNotCalled(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := reshaped(now)
	op, _ = step(t, op, f, now, Acting)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone}
	op, _ = step(t, op, f, now.Add(time.Second), Acting)
	f.Call, f.Platform.Shape = nil, f.WantedShape
	op, _ = step(t, op, f, now.Add(2*time.Second), Drained)
	at := now.Add(3 * time.Second)
	op, effects := step(t, op, f, at, Booting)
	wantNoEffects(t, effects)
	if op.Call.Number != 1 || !op.Times.HealthyBy.Equal(at.Add(limits.Healthy)) {
		t.Errorf("%d calls, and the boot is due by %s", op.Call.Number, op.Times.HealthyBy)
	}
}
