package operation

import (
	"slices"
	"testing"
	"time"
)

// stopping returns facts of a platform that changes a stopped CVM only. The CVM is stopped.
func stopping(now time.Time) Facts {
	f := quiet(now)
	f.StopFirst, f.Platform.Running, f.Platform.Stopped, f.ReadySince = true, false, true, time.Time{}
	return f
}

// stopped returns an Update whose stop is accepted and shown.
func stopped(t *testing.T) (Operation, time.Time) {
	t.Helper()
	op, now := begun(Update, skipped), start
	f := quiet(now)
	f.StopFirst = true
	op, effects := step(t, op, f, now, Acting)
	if len(effects) != 1 || effects[0].Call != PartStop || effects[0].Force {
		t.Fatalf("%+v, want a stop that asks the guest", effects)
	}
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone}
	op, _ = step(t, op, f, now, Acting)
	op, _ = step(t, op, stopping(now), now, Drained)
	return op, now
}

// TestTheWriteOfAStoppedCVMTakesTheWholeShape: a disk that would not grow stays as it is.
func TestTheWriteOfAStoppedCVMTakesTheWholeShape(t *testing.T) {
	op, now := stopped(t)
	f := stopping(now)
	f.Platform.Shape, f.WantedShape = Shape{InstanceType: "small", OSImage: "one", DiskGB: 40}, Shape{InstanceType: "large", OSImage: "one", DiskGB: 20}
	_, effects := step(t, op, f, now, Acting)
	if want := (Shape{InstanceType: "large", OSImage: "one"}); len(effects) != 1 || effects[0].Call != PartCompose || effects[0].Shape != want {
		t.Errorf("%+v, want one write with %+v", effects, want)
	}
}

// TestAGuestThatStaysUpIsStoppedByForce: the record of the further call says so, also while the platform still works on
// the first stop. A Boot that came after the stop was not asked yet.
func TestAGuestThatStaysUpIsStoppedByForce(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*Facts)
		force bool
	}{
		"runs":          {func(*Facts) {}, true},
		"still stops":   {func(f *Facts) { f.Platform.Running, f.Platform.InProgress = false, true }, true},
		"started again": {func(f *Facts) { f.Admission.BootID = "boot-host" }, false},
	} {
		op, now := begun(Update, skipped), start
		f := quiet(now)
		f.StopFirst = true
		op, _ = step(t, op, f, now, Acting)
		f.Call = &CallResult{Number: 1, Outcome: OutcomeDone}
		op, _ = step(t, op, f, now, Acting)
		f.Call, now = nil, now.Add(StopWithin)
		f.ObservedAt = now
		c.edit(&f)
		next, effects := step(t, op, f, now, Acting)
		if len(effects) != 1 || effects[0].Call != PartStop || effects[0].Force != c.force || next.Call.Force != c.force || next.Call.Number != 2 {
			t.Errorf("%s: %+v, recorded %+v", name, effects, next.Call)
			continue
		}
		if reason, ok := MayCall(next, f); !ok {
			t.Errorf("%s: the call is not made: %s", name, reason)
		}
	}
}

// TestNoPauseCallsAStoppedStepOff: neither a pause, nor another wish, nor a refused revision leaves a stopped CVM.
func TestNoPauseCallsAStoppedStepOff(t *testing.T) {
	op, now := stopped(t)
	f := stopping(now)
	f.Paused, f.Unwanted, f.Refused = true, "the spec moved on", "no such image"
	_, effects := step(t, op, f, now, Acting)
	wantCall(t, effects, Update, 2)
}

// TestAChangeThatIsGivenUpStartsTheCVMAgain: by a start that the safety of the group does not hold, and a CVM that its
// host started needs none. The Slot's record names the old Revision then.
func TestAChangeThatIsGivenUpStartsTheCVMAgain(t *testing.T) {
	op, now := stopped(t)
	op, _ = step(t, op, stopping(now), now, Acting)
	f := stopping(now)
	f.Call = &CallResult{Number: op.Call.Number, Outcome: OutcomeRefused, Message: "no such image"}
	op, _ = step(t, op, f, now, Drained)
	f.Call, f.Safe = nil, false
	started, effects := step(t, op, f, now, Acting)
	if len(effects) != 1 || effects[0].Call != PartRestart {
		t.Fatalf("%+v, want the start of the CVM", effects)
	}
	if reason, ok := MayCall(started, f); !ok {
		t.Errorf("the start is not made: %s", reason)
	}
	f = quiet(now)
	f.StopFirst = true
	op, _ = step(t, op, f, now, Failed)
	if op.Failure.Cause != CauseRefused || op.EndedHalfDone() || op.AssignedAfter("B") != "A" {
		t.Errorf("ended as %+v, half done %t, assigned %s", op.Failure, op.EndedHalfDone(), op.AssignedAfter("B"))
	}
}

// TestAStartThatIsRefusedIsAskedAgain: the CVM is down with its new content, so a failure would leave it down.
func TestAStartThatIsRefusedIsAskedAgain(t *testing.T) {
	op, now := stopped(t)
	op.Call = op.Call.with(PartCompose)
	op, effects := step(t, op, stopping(now), now, Acting)
	if len(effects) != 1 || effects[0].Call != PartRestart {
		t.Fatalf("%+v, want the start of the CVM", effects)
	}
	f := stopping(now)
	f.Call = &CallResult{Number: op.Call.Number, Outcome: OutcomeRefused, Message: "429"}
	op, _ = step(t, op, f, now, Acting)
	now = now.Add(MaxWait)
	f.Call, f.ObservedAt = nil, now
	_, effects = step(t, op, f, now, Acting)
	if len(effects) != 1 || effects[0].Call != PartRestart {
		t.Errorf("%+v, want another start", effects)
	}
}

// TestACVMThatWasMadeAndNotStartedIsStarted: its creator died between the two calls of its driver.
func TestACVMThatWasMadeAndNotStartedIsStarted(t *testing.T) {
	op, now := to(t, Create, Booting)
	now = now.Add(limits.Settle)
	f := stopping(now)
	f.Admission = nil
	op, _ = step(t, op, f, now, Drained)
	op, effects := step(t, op, f, now, Acting)
	if len(effects) != 1 || effects[0].Call != PartRestart || effects[0].VMUUID != "vm-1" {
		t.Fatalf("%+v, want the start of the new CVM", effects)
	}
	f.Call = &CallResult{Number: op.Call.Number, Outcome: OutcomeUnknown}
	op, _ = step(t, op, f, now, Acting)
	f.Call, f.Platform.Stopped, f.Platform.Running = nil, false, true
	now = now.Add(limits.Settle)
	f.ObservedAt = now
	step(t, op, f, now, Booting)
}

// TestI16_WhatTheHostMayHaveDoneDecidesNoCallBeforeItsTime: a stop, a start or a restart has no answer, and the CVM looks
// like its effect. The CVM may have halted, started or restarted without a call, and the call may still come. No other call
// is made until the time within which an effect shows is over. The wait ends then.
func TestI16_WhatTheHostMayHaveDoneDecidesNoCallBeforeItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		kind      Kind
		call      Call
		stopFirst bool
		host      func(*PlatformView)
		next      Phase
	}{
		"a stop": {Update, Call{Part: PartStop}, true, func(p *PlatformView) { p.Running, p.Stopped = false, true }, Acting},
		"a start": {Update, Call{Part: PartRestart, Applied: []Part{PartStop, PartCompose}, HashBefore: "hash-B", HashWanted: "hash-B"}, true,
			func(p *PlatformView) { p.ComposeHash = "hash-B" }, Booting},
		"a restart": {Restart, Call{Part: PartRestart, UpdatedBefore: start.Add(-time.Hour)}, false, func(p *PlatformView) { p.UpdatedAt = start.Add(time.Hour) }, Booting},
	} {
		op, now := to(t, c.kind, Acting)
		issued := op.Call.IssuedAt
		op.Call = c.call
		op.Call.IssuedAt, op.Call.Number, op.Call.Outcome = issued, 1, OutcomeUnknown
		settled := issued.Add(limits.Settle)
		for _, asked := range []time.Time{now, settled.Add(-1)} {
			f := quiet(asked)
			f.StopFirst = c.stopFirst
			c.host(f.Platform)
			for _, at := range []time.Time{asked, settled} { // the listing has to be late enough, not only the clock
				next, effects := step(t, op, f, at, Acting)
				if wantNoEffects(t, effects); next.Call.Outcome != OutcomeUnknown {
					t.Errorf("%s: %s after %s", name, next.Reason, at.Sub(issued))
				}
			}
		}
		f := quiet(settled)
		f.StopFirst = c.stopFirst
		c.host(f.Platform)
		if next, _ := step(t, op, f, settled, c.next); next.Call.Outcome != OutcomeDone {
			t.Errorf("%s: %s at the end of the time", name, next.Reason)
		}
	}
}

// TestAPlatformThatRestartsStopsNothing: a CVM of Phala Cloud is never stopped by a step.
func TestAPlatformThatRestartsStopsNothing(t *testing.T) {
	for _, kind := range []Kind{Update, Restart} {
		op := begun(kind, skipped)
		if parts := op.parts(quiet(start)); slices.Contains(parts, PartStop) {
			t.Errorf("%s: %v", kind, parts)
		}
	}
}

// TestAStartThatAListingDoesNotShowYetIsNotRepeated: the listing is older than the start. Once the start
// had its time, a CVM that is down is started again.
func TestAStartThatAListingDoesNotShowYetIsNotRepeated(t *testing.T) {
	op, now := stopped(t)
	op, _ = step(t, op, stopping(now), now, Acting)
	f := stopping(now)
	f.Call = &CallResult{Number: 2, Outcome: OutcomeRefused, Message: "no such image"}
	op, _ = step(t, op, f, now, Drained)
	op, _ = step(t, op, stopping(now), now, Acting)
	f.Call = &CallResult{Number: 3, Outcome: OutcomeDone}
	op, _ = step(t, op, f, now, Acting)
	if _, effects := step(t, op, stopping(now), now, Acting); len(effects) != 0 {
		t.Errorf("%+v at once, want none", effects)
	}
	now = now.Add(time.Hour)
	f = stopping(now)
	f.ObservedAt = now
	if next, effects := Advance(op, f, now); len(effects) != 1 && !next.Phase.Ended() {
		t.Errorf("%s %+v later, want another start, or the end", next.Phase, effects)
	}
}
