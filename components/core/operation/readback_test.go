package operation

import (
	"strings"
	"testing"
	"time"
)

// TestR66_APartThatIsReadBackIsFollowedByTheNext: the answer to the call is lost, but the platform shows its effect.
// The effect counts like the answer: the next part is called once.
func TestR66_APartThatIsReadBackIsFollowedByTheNext(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := reshaped(now)
	op, _ = step(t, op, f, now, Acting)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeUnknown}
	op, _ = step(t, op, f, now, Acting)
	f.Call = nil
	f.Platform.Shape.InstanceType, f.Platform.Shape.DiskGB = "tdx.large", 40
	seen := now.Add(time.Second)
	op, effects := step(t, op, f, seen, Acting)
	wantNoEffects(t, effects)
	if op.Call.Outcome != OutcomeDone {
		t.Errorf("outcome %q, want what was read back", op.Call.Outcome)
	}
	later := seen.Add(time.Second)
	op, effects = step(t, op, f, later, Drained)
	wantNoEffects(t, effects)
	if want := seen.Add(limits.Healthy); !op.Times.HealthyBy.Equal(want) {
		t.Errorf("deadline %s, want %s: it runs from what was read back", op.Times.HealthyBy, want)
	}
	_, effects = step(t, op, f, later, Acting)
	if len(effects) != 1 || effects[0].Call != PartOSImage || effects[0].Number != 2 {
		t.Errorf("effects %+v, want the next part", effects)
	}
}

// TestACVMThatIsToGoOrToComeIsNotMissed: an unlisted CVM is the goal or the beginning of a Create, Delete and Replace,
// and no failure.
func TestACVMThatIsToGoOrToComeIsNotMissed(t *testing.T) {
	for kind, want := range map[Kind]Phase{Create: Booting, Delete: Done, Replace: Booting} {
		op := begun(kind)
		op.Phase, op.CVM.VMUUID, op.CVM.InstanceID, op.Call.Number = Booting, "vm-1", "i-1", 1
		op.Entered = PhaseTimes{Acting: start, Booting: start}
		op.Times.HealthyBy = start.Add(limits.Healthy)
		for n := range 3 {
			now := start.Add(time.Duration(n+1) * time.Second)
			f := quiet(now)
			f.Platform, f.Admission, f.ReadySince = nil, nil, time.Time{}
			if op.Phase.Ended() {
				break
			}
			op, _ = step(t, op, f, now, want)
		}
	}
}

// TestR68_ADeleteWhoseCVMIsGoneBeforeItsAnswer succeeds, and is not called again.
func TestR68_ADeleteWhoseCVMIsGoneBeforeItsAnswer(t *testing.T) {
	op, now := to(t, Delete, Acting)
	f := quiet(now)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeUnknown}
	op, _ = step(t, op, f, now, Acting)
	f.Call, f.Platform = nil, nil
	for _, want := range []Phase{Booting, Done} {
		now = now.Add(time.Second)
		f.ObservedAt = now
		var effects []Effect
		op, effects = step(t, op, f, now, want)
		wantNoEffects(t, effects)
	}
	if op.Call.Number != 1 || op.Failure.Cause != "" {
		t.Errorf("%d calls, cause %q", op.Call.Number, op.Failure.Cause)
	}
}

// TestR11_AnUnseenCVMDoesNotSettle: the clock alone completes no step while the CVM is unseen.
func TestR11_AnUnseenCVMDoesNotSettle(t *testing.T) {
	op, now := to(t, Update, Joining)
	op, _ = step(t, op, available(now, now), now, Settling)
	full := op.Seen.AvailableSince.Add(limits.MinReady)
	f := available(full, op.Seen.AvailableSince)
	f.PlatformKnown, f.Platform = false, nil
	op, _ = step(t, op, f, full, Settling)
	step(t, op, available(full, op.Seen.AvailableSince), full, Done)
}

// TestOnlyACVMSeenMissingMakesWay: two failed listings say nothing about the CVM that a Replace deletes. An Update
// keeps its named CVM even if another CVM appears.
func TestOnlyACVMSeenMissingMakesWay(t *testing.T) {
	for kind, edit := range map[Kind]func(*Facts){
		Replace: func(f *Facts) { f.PlatformKnown = false },
		Update:  func(*Facts) {},
		Restart: func(*Facts) {},
	} {
		op, now := to(t, kind, Drained)
		for n := range 3 {
			at := now.Add(time.Duration(n) * time.Second)
			f := quiet(at)
			f.Platform = nil
			edit(&f)
			var effects []Effect
			op, effects = step(t, op, f, at, Drained)
			wantNoEffects(t, effects)
		}
		if op.CVM.VMUUID != "vm-1" || op.CVM.InstanceID != "i-1" {
			t.Errorf("%s names CVM %q of instance %q", kind, op.CVM.VMUUID, op.CVM.InstanceID)
		}
	}
	op, now := to(t, Replace, Drained)
	for n := range 2 {
		f := quiet(now.Add(time.Duration(n) * time.Second))
		f.Platform = nil
		op, _ = step(t, op, f, f.ObservedAt, Drained)
	}
	if op.CVM.VMUUID != "" {
		t.Errorf("CVM %s is gone in two lists, and still named", op.CVM.VMUUID)
	}
}

// TestAMemberThatWasNeverAwayHasNoOutage: an outage ends only if it was begun.
func TestAMemberThatWasNeverAwayHasNoOutage(t *testing.T) {
	for phase, away := range map[Phase]bool{Drained: false, Draining: true} {
		op, now := to(t, Update, phase)
		f := quiet(now)
		f.Unwanted = "the spec moved on"
		op.Outage.From = time.Time{}
		if away {
			op.Outage.From = start
		}
		op, _ = step(t, op, f, now, Aborted)
		if op.Outage.Until.IsZero() == away {
			t.Errorf("%s: away from %s until %s", phase, op.Outage.From, op.Outage.Until)
		}
	}
}

// TestTheNextPartWaitsUntilTheContentShows: the CVM's shape changed while the call for its content was made. The call
// for the shape follows once the platform shows the content, and no sooner.
func TestTheNextPartWaitsUntilTheContentShows(t *testing.T) {
	op, now := to(t, Update, Acting)
	f := quiet(now)
	f.WantedShape = Shape{InstanceType: "tdx.large"}
	f.Platform.Shape = Shape{InstanceType: "tdx.small"}
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone}
	op, _ = step(t, op, f, now, Acting)
	f.Call = nil
	for range 3 {
		now = now.Add(time.Second)
		f.ObservedAt = now
		var effects []Effect
		op, effects = step(t, op, f, now, Acting)
		wantNoEffects(t, effects)
	}
	f.Platform.ComposeHash = f.WantedHash
	op, _ = step(t, op, f, now, Drained)
	_, effects := step(t, op, f, now, Acting)
	if len(effects) != 1 || effects[0].Call != PartResources {
		t.Errorf("effects %+v, want the change of the shape", effects)
	}
}

// TestAMemberThatDrainsAgainIsWaitedFor, even before its replacement, while its CVM exists.
func TestAMemberThatDrainsAgainIsWaitedFor(t *testing.T) {
	for _, kind := range []Kind{Update, Replace} {
		op, now := to(t, kind, Drained)
		f := quiet(now)
		f.Steps = answer(VerbDrain, StepRunning)
		_, effects := step(t, op, f, now, Draining)
		wantNoEffects(t, effects)
	}
}

// TestR143_ABootProvesNoEnv: only the platform's update time shows new env values. A Boot that came automatically
// before the call proves the Revision, but not the values.
func TestR143_ABootProvesNoEnv(t *testing.T) {
	op, now := to(t, Update, Acting)
	op.Way.Mode, op.From, op.Call.HashBefore, op.Call.OwnEnv = ModeOwn, op.To, op.Call.HashWanted, "red"
	f := quiet(now)
	f.GivenEnv = "blue"
	f.Admission.BootID, f.Admission.Revision = "by-itself", op.To
	f.ObservedAt = op.Call.IssuedAt.Add(f.Limits.Settle)
	now = f.ObservedAt
	if got := op.readBack(f, now); got != effectAbsent {
		t.Errorf("nothing of the call shows, and the boot counts as its effect: %d", got)
	}
	f.ObservedAt = op.Call.IssuedAt.Add(f.Limits.Settle - 1)
	op.Call.UpdatedBefore = op.Call.IssuedAt.Add(-1)
	for _, f.Platform.UpdatedAt = range []time.Time{op.Call.UpdatedBefore, op.Call.IssuedAt} {
		if got := op.readBack(f, now); got != effectUnknown {
			t.Errorf("before the call had the time to show: %d", got)
		}
	}
	f.ObservedAt = op.Call.IssuedAt.Add(f.Limits.Settle)
	if got := op.readBack(f, now); got != effectSeen {
		t.Errorf("the platform tells of it: %d", got)
	}
	f.GivenEnv, f.Platform.UpdatedAt = "red", op.Call.UpdatedBefore
	if got := op.readBack(f, now); got != effectSeen {
		t.Errorf("the env is no other one, so that the new boot is the effect: %d", got)
	}
}

// TestR115_AReportingGuestIsNotForced: the platform asks a guest whose agent reported since the step was recorded.
func TestR115_AReportingGuestIsNotForced(t *testing.T) {
	op, now := to(t, Restart, Acting)
	op.Way.Mode = ModeForce
	f := quiet(now)
	f.LastReportAt = op.Times.Created
	if !op.forces(PartRestart, f, now) {
		t.Error("its guest hangs, and is asked")
	}
	f.LastReportAt = op.Times.Created.Add(1)
	if op.forces(PartRestart, f, now) {
		t.Error("its agent speaks, and it is forced")
	}
}

// TestR66_AStepCalledOffAfterReadingBackChangedNothing: the record says that the call had no effect. A later step then
// judges the CVM by the call before.
func TestR66_AStepCalledOffAfterReadingBackChangedNothing(t *testing.T) {
	op, now := to(t, Update, Acting)
	f := quiet(now)
	f.Unwanted = "the spec moved on"
	f.Call = &CallResult{Number: 1, Outcome: OutcomeUnknown}
	op, _ = step(t, op, f, now, Acting)
	f.Call, f.ObservedAt = nil, op.Call.IssuedAt.Add(f.Limits.Settle-1)
	op, _ = step(t, op, f, f.ObservedAt, Acting)
	if op.Call.Outcome != OutcomeUnknown {
		t.Errorf("outcome %q before it had the time to show", op.Call.Outcome)
	}
	f.ObservedAt = op.Call.IssuedAt.Add(f.Limits.Settle)
	sameHash := op
	op, _ = step(t, op, f, f.ObservedAt, Aborted)
	if op.Call.Outcome != OutcomeNotMade {
		t.Errorf("outcome %q, want what was read back", op.Call.Outcome)
	}
	// The platform hides env values, so a missing effect is no proof.
	sameHash.Call.HashBefore, sameHash.Call.OwnEnv = sameHash.Call.HashWanted, "red"
	f.Platform.ComposeHash = sameHash.Call.HashWanted
	sameHash, _ = step(t, sameHash, f, f.ObservedAt, Aborted)
	if sameHash.Call.Outcome != OutcomeUnknown {
		t.Errorf("outcome %q of values that show nowhere", sameHash.Call.Outcome)
	}
}

// TestR66_AHalfDoneStepRecordsACallWithoutEffect: no Slot then waits for the call's outcome. A late effect is accepted
// anyway, and the call is repeated as soon as that is safe.
func TestR66_AHalfDoneStepRecordsACallWithoutEffect(t *testing.T) {
	op, now := to(t, Update, Acting)
	op.Call.Applied, op.Times.HealthyBy = []Part{PartResources}, now.Add(time.Hour)
	f := quiet(now)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeUnknown}
	op, _ = step(t, op, f, now, Acting)
	f.Call, f.ObservedAt = nil, op.Call.IssuedAt.Add(f.Limits.Settle)
	f.Safe, f.SafeReason = false, "db-0 is not available"
	sameHash := op
	op, effects := step(t, op, f, f.ObservedAt, Acting)
	wantNoEffects(t, effects)
	if op.Call.Outcome != OutcomeNotMade || !op.Call.InVain() || !strings.Contains(op.Reason, "had no effect") {
		t.Errorf("outcome %q: %s", op.Call.Outcome, op.Reason)
	}
	for _, safe := range []bool{false, true} {
		late, shown := f, *f.Platform
		shown.ComposeHash, late.Platform, late.Safe = f.WantedHash, &shown, safe
		taken, effects := step(t, op, late, f.ObservedAt.Add(MaxWait), Booting)
		wantNoEffects(t, effects)
		if taken.Before.BootID != op.Before.BootID || taken.Call.Number != 1 {
			t.Errorf("safe %t: call %d, after %s", safe, taken.Call.Number, taken.Before.BootID)
		}
	}
	f.Safe, f.ObservedAt = true, f.ObservedAt.Add(MaxWait)
	_, effects = step(t, op, f, f.ObservedAt, Acting)
	wantCall(t, effects, Update, 2)
	// The platform never shows env values.
	sameHash.Call.HashBefore, sameHash.Call.OwnEnv = sameHash.Call.HashWanted, "red"
	f.Safe, f.Platform.ComposeHash = false, sameHash.Call.HashWanted
	op, _ = step(t, sameHash, f, f.ObservedAt, Acting)
	if op.Call.Outcome != OutcomeUnknown || op.Call.InVain() {
		t.Errorf("outcome %q of values that show nowhere", op.Call.Outcome)
	}
	// An outside change of the CVM proves nothing about an unsent call.
	op.Call.Outcome, op.Call.UpdatedBefore = OutcomeNotMade, now
	f.Platform.UpdatedAt = f.ObservedAt
	if op, effects = step(t, op, f, f.ObservedAt.Add(MaxWait), Acting); op.Call.Outcome != OutcomeNotMade || len(effects) != 0 {
		t.Errorf("outcome %q of what was never sent, %+v", op.Call.Outcome, effects)
	}
}

// TestR66_ACallOnAStillStoppedCVMIsRepeated: a stopped CVM shows a call only by a new hash, and a repeated call is
// harmless. The repetitions end if the platform stays silent.
func TestR66_ACallOnAStillStoppedCVMIsRepeated(t *testing.T) {
	for _, kind := range []Kind{Update, Restart} {
		op, now := to(t, kind, Acting)
		op.Call.HashBefore, op.Before.Stopped = op.Call.HashWanted, true
		f := quiet(now)
		f.Platform.Running, f.Platform.ComposeHash = false, op.Call.HashWanted
		f.ObservedAt = op.Call.IssuedAt.Add(f.Limits.Settle - 1)
		if got := op.readBack(f, f.ObservedAt); got != effectUnknown {
			t.Errorf("%s: before it had the time to show: %d", kind, got)
		}
		f.ObservedAt = op.Call.IssuedAt.Add(f.Limits.Settle)
		if got := op.readBack(f, f.ObservedAt); got != effectAbsent {
			t.Errorf("%s: it is down: %d", kind, got)
		}
		f.ObservedAt = op.Entered[Acting].Add(f.Limits.Unknown)
		if got := op.readBack(f, f.ObservedAt); got != effectUnknown {
			t.Errorf("%s: after all that time: %d", kind, got)
		}
		f.ObservedAt = op.Call.IssuedAt.Add(f.Limits.Settle)
		// An update may have stopped a CVM that ran before.
		if op.Before.Stopped = false; kind == Update {
			if got := op.readBack(f, f.ObservedAt); got != effectUnknown {
				t.Errorf("it ran before: %d", got)
			}
		}
		op.Before.Stopped, f.Platform.Running = true, true
		if got := op.readBack(f, f.ObservedAt); got != effectUnknown {
			t.Errorf("%s: it runs: %d", kind, got)
		}
	}
}

// TestR66_AnAnswerWithoutAKnownOutcomeIsUndecided, so that the call is read back and not repeated.
func TestR66_AnAnswerWithoutAKnownOutcomeIsUndecided(t *testing.T) {
	for _, outcome := range []Outcome{"", "LATER", OutcomeUnknown} {
		op, now := to(t, Update, Acting)
		f := quiet(now)
		f.Call = &CallResult{Number: 1, Outcome: outcome, Message: "502"}
		op, effects := step(t, op, f, now, Acting)
		wantNoEffects(t, effects)
		if op.Call.Outcome != OutcomeUnknown || !op.Call.Undecided() {
			t.Errorf("%q is recorded as %q", outcome, op.Call.Outcome)
		}
	}
}
