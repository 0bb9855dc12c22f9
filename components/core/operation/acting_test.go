package operation

import (
	"strings"
	"testing"
	"time"
)

func TestR60_TheCallIsInTheRecordBeforeItIsMade(t *testing.T) {
	op, now := to(t, Update, Drained)
	op, effects := step(t, op, quiet(now), now, Acting)
	wantCall(t, effects, Update, 1)
	if op.Call.IssuedAt != now || op.Call.Number != 1 || op.Phase != Acting || op.Call.Outcome != "" {
		t.Errorf("record %+v", op)
	}
	_, effects = step(t, op, quiet(now), now, Acting)
	wantNoEffects(t, effects)
}

func TestR61_ALeaderOfThePastChangesNothing(t *testing.T) {
	for _, phase := range []Phase{Draining, Drained, Acting, Booting, Joining, Settling} {
		op, now := to(t, Update, phase)
		f := happy(op, now.Add(time.Second))
		f.Term = op.Term - 1
		next, effects := Advance(op, f, now.Add(time.Second))
		wantNoEffects(t, effects)
		if !Same(op, next) {
			t.Errorf("%s: the record changed to %s", phase, next.Phase)
		}
	}
}

func TestR61_ANewLeaderSignsTheRecord(t *testing.T) {
	op, now := to(t, Update, Draining)
	f := quiet(now)
	f.Term = 9
	if next, _ := Advance(op, f, now); next.Term != 9 {
		t.Errorf("term %d", next.Term)
	}
}

func TestR63_TheCallNamesTheOneCVM(t *testing.T) {
	op, now := to(t, Update, Drained)
	_, effects := step(t, op, quiet(now), now, Acting)
	if effects[0].VMUUID != "vm-1" || effects[0].InstanceID != "i-1" {
		t.Errorf("effect %+v", effects[0])
	}
}

func TestR63_ASuccessorUnderTheSameNameIsNotTouched(t *testing.T) {
	for _, kind := range []Kind{Update, Restart, Delete} {
		op, now := to(t, kind, Drained)
		for name, edit := range map[string]func(*PlatformView){
			"another CVM":      func(p *PlatformView) { p.VMUUID = "vm-2" },
			"another instance": func(p *PlatformView) { p.InstanceID = "i-2" },
		} {
			f := quiet(now)
			edit(f.Platform)
			_, effects := step(t, op, f, now, Drained)
			if len(effects) > 0 {
				t.Errorf("%s, %s: effects %+v", kind, name, effects)
			}
		}
	}
	op, now := to(t, Update, Booting)
	f := rebooting(now)
	f.Platform.VMUUID = "vm-2"
	op, _ = step(t, op, f, now, Booting)
	f.ObservedAt = now.Add(time.Second) // a second listing lacks the CVM
	op, _ = step(t, op, f, now.Add(time.Second), Failed)
	if op.Failure.Cause != CauseReplaced {
		t.Errorf("cause %s", op.Failure.Cause)
	}
}

func TestR64_OneCallForOneSlot(t *testing.T) {
	op, now := to(t, Update, Drained)
	_, effects := Advance(op, quiet(now), now)
	if len(effects) != 1 {
		t.Errorf("effects %+v", effects)
	}
}

func TestR65_ThreeOutcomes(t *testing.T) {
	for outcome, want := range map[Outcome]Phase{OutcomeDone: Booting, OutcomeRefused: Failed, OutcomeUnknown: Acting, OutcomeBusy: Acting, "": Acting, "odd": Acting} {
		op, now := to(t, Update, Acting)
		f := quiet(now)
		f.Call = &CallResult{Number: 1, Outcome: outcome, Message: "because"}
		op, effects := step(t, op, f, now, want)
		switch want {
		case Failed:
			wantOrder(t, effects, VerbCancelDrain)
			if o, ok := CurrentOrder(op); !ok || o.Verb != VerbCancelDrain || op.Failure.Cause != CauseRefused {
				t.Errorf("after the refusal: order %+v %t, cause %s", o, ok, op.Failure.Cause)
			}
		default:
			wantNoEffects(t, effects)
		}
	}
}

func TestR65_BusyIsAskedAgainLater(t *testing.T) {
	op, now := to(t, Update, Acting)
	f := quiet(now)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeBusy}
	op, _ = step(t, op, f, now, Acting)
	_, effects := step(t, op, f, now.Add(time.Second), Acting)
	wantNoEffects(t, effects)
	later := now.Add(3 * time.Second)
	op, effects = step(t, op, quiet(later), later, Acting)
	wantCall(t, effects, Update, 2)
	f = quiet(later)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone} // an answer to the previous call
	if op, _ = step(t, op, f, later, Acting); op.Call.Outcome != "" {
		t.Errorf("outcome %q of another call was taken", op.Call.Outcome)
	}
}

func TestR66_ACallThatTookEffectIsNotRepeated(t *testing.T) {
	op, now := to(t, Update, Acting)
	f := quiet(now)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeUnknown}
	op, _ = step(t, op, f, now, Acting)
	for range 5 { // the platform works: the step decides nothing and sends nothing
		now = now.Add(30 * time.Second)
		f = rebooting(now)
		var effects []Effect
		op, effects = step(t, op, f, now, Acting)
		wantNoEffects(t, effects)
	}
	f = quiet(now)
	f.Platform.ComposeHash = "hash-B"
	op, effects := step(t, op, f, now, Booting)
	wantNoEffects(t, effects)
	if op.Call.Number != 1 {
		t.Errorf("%d calls", op.Call.Number)
	}
}

func TestR66_ACallThatTookNoEffectIsRepeatedOnce(t *testing.T) {
	op, now := to(t, Update, Acting)
	f := quiet(now)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeUnknown}
	op, _ = step(t, op, f, now, Acting)
	early := now.Add(limits.Settle - time.Second)
	_, effects := step(t, op, quiet(early), early, Acting)
	wantNoEffects(t, effects)
	settled := now.Add(limits.Settle)
	stale := quiet(now) // seen before the effect could show
	_, effects = step(t, op, stale, settled, Acting)
	wantNoEffects(t, effects)
	op, effects = step(t, op, quiet(settled), settled, Acting)
	wantCall(t, effects, Update, 2)
	_, effects = step(t, op, quiet(settled), settled, Acting)
	wantNoEffects(t, effects)
	f = quiet(settled)
	f.Call = &CallResult{Number: 2, Outcome: OutcomeDone}
	if op, _ = step(t, op, f, settled, Booting); op.Call.Number != 2 {
		t.Errorf("%d calls", op.Call.Number)
	}
}

func TestR66_UndecidedIsShown(t *testing.T) {
	op, now := to(t, Restart, Acting)
	late := now.Add(limits.Unknown)
	f := quiet(late)
	f.LastReportOf, f.Platform.UpdatedAt = "", time.Time{}
	op, effects := step(t, op, f, late, Acting)
	wantNoEffects(t, effects)
	if want := "platform_result_unknown"; len(op.Reason) < len(want) || op.Reason[:len(want)] != want {
		t.Errorf("reason %q", op.Reason)
	}
}

// TestR66_AHealWhoseCallIsNeverAnsweredIsCalledOff: the CVM is still down, so healing retries until the time for
// undecided calls is over. For a restart that an operator requested, an operator records the outcome.
func TestR66_AHealWhoseCallIsNeverAnsweredIsCalledOff(t *testing.T) {
	for actor, want := range map[Actor]Phase{ActorHealing: Aborted, ActorOperator: Acting} {
		op, now := to(t, Restart, Acting)
		op.Actor = actor
		down := func() Facts {
			f := quiet(now)
			f.Platform.Running, f.LastReportOf, f.ReadySince = false, "", time.Time{}
			return f
		}
		for end := now.Add(limits.Unknown); now.Before(end); {
			f := down()
			f.Call = &CallResult{Number: op.Call.Number, Outcome: OutcomeUnknown, Message: "503"}
			op, _ = step(t, op, f, now, Acting)
			now = now.Add(limits.Settle)
			if now.Before(end) {
				op, _ = step(t, op, down(), now, Acting)
			}
		}
		if op.Call.Number < 2 {
			t.Fatalf("%s: %d calls", actor, op.Call.Number)
		}
		calls := op.Call.Number
		op, _ = step(t, op, down(), now, want)
		if op.Call.Number != calls || actor == ActorHealing && op.Failure.Cause != CauseUnsafe {
			t.Errorf("%s: %d calls, cause %q", actor, op.Call.Number, op.Failure.Cause)
		}
	}
}

func TestR66_ARestartHasNoHashToCompare(t *testing.T) {
	acting := func() (Operation, time.Time) { return to(t, Restart, Acting) }
	op, now := acting()
	settled := now.Add(limits.Settle)

	f := quiet(settled) // the old boot reports after the settle time: no effect
	_, effects := step(t, op, f, settled, Acting)
	wantCall(t, effects, Restart, 2)

	f = quiet(settled) // silent: the Boot may be going down
	f.LastReportAt = now
	_, effects = step(t, op, f, settled, Acting)
	wantNoEffects(t, effects)

	f = quiet(settled) // the platform changed something since
	f.Platform.UpdatedAt = f.Platform.UpdatedAt.Add(time.Minute)
	step(t, op, f, settled, Booting)

	f = quiet(settled) // another boot is admitted
	f.Admission.BootID = "boot-new"
	step(t, op, f, settled, Booting)

	f = quiet(settled) // the platform has a task in progress
	f.Platform.InProgress = true
	_, effects = step(t, op, f, settled, Acting)
	wantNoEffects(t, effects)
}

func TestR66_AnUpdateUnderTheSameHashIsJudgedLikeARestart(t *testing.T) {
	op, now := to(t, Update, Drained)
	f := quiet(now)
	f.WantedHash = "hash-A" // only env differs
	op, _ = step(t, op, f, now, Acting)
	settled := now.Add(limits.Settle)
	_, effects := step(t, op, quiet(settled), settled, Acting)
	wantCall(t, effects, Update, 2) // the hash alone would have said that it took effect
}

func TestR67_CreateAdoptsByName(t *testing.T) {
	op, now := to(t, Create, Drained)
	f := quiet(now) // a CVM with this name already exists
	op, effects := step(t, op, f, now, Booting)
	wantNoEffects(t, effects)
	if op.Call.Number != 0 || op.CVM.VMUUID != "vm-1" || op.CVM.InstanceID != "i-1" || op.Times.HealthyBy.IsZero() {
		t.Errorf("adopted %+v", op)
	}

	op, now = to(t, Create, Acting) // the answer was lost, but the CVM exists
	op, effects = step(t, op, quiet(now), now, Booting)
	wantNoEffects(t, effects)
	if op.Call.Number != 1 || op.CVM.VMUUID != "vm-1" {
		t.Errorf("adopted %+v", op)
	}
}

// TestR67_CreateLeavesAStrangersCVMAlone: an operator decides about a CVM that no call of Cadre can have made. This
// CVM never attests as the new revision, so a step that waited for it would fail the rollout.
func TestR67_CreateLeavesAStrangersCVMAlone(t *testing.T) {
	op, now := to(t, Create, Drained)
	f := quiet(now)
	f.Platform.Unbound = true
	op, effects := step(t, op, f, now, Aborted)
	wantNoEffects(t, effects)
	if op.Call.Number != 0 || op.CVM.VMUUID != "" || !strings.Contains(op.Reason, "cadre group adopt "+op.Group) {
		t.Errorf("called off %+v", op)
	}
}

func TestR67_CreateIsRepeatedOnlyWhenNothingAppeared(t *testing.T) {
	op, now := to(t, Create, Acting)
	none := func(at time.Time) Facts {
		f := happy(begun(Create), at)
		return f
	}
	early := now.Add(time.Second)
	_, effects := step(t, op, none(early), early, Acting)
	wantNoEffects(t, effects)
	settled := now.Add(limits.Settle)
	f := none(settled)
	f.PlatformKnown = false // a failed list is not an empty list
	_, effects = step(t, op, f, settled, Acting)
	wantNoEffects(t, effects)
	_, effects = step(t, op, none(settled), settled, Acting)
	wantCall(t, effects, Create, 2)
}

func TestR67_TwoOfANameStartNothing(t *testing.T) {
	for _, phase := range []Phase{Drained, Acting} {
		op, now := to(t, Create, phase)
		settled := now.Add(limits.Settle)
		f := quiet(settled)
		f.Duplicates = 1
		_, effects := step(t, op, f, settled, phase)
		wantNoEffects(t, effects)
	}
}

func TestR68_ADeleteOfAMissingCVMIsDone(t *testing.T) {
	op, now := to(t, Delete, Drained)
	f := quiet(now)
	f.Platform = nil
	op, effects := step(t, op, f, now, Done)
	wantNoEffects(t, effects)
	if op.Call.Number != 0 {
		t.Errorf("%d calls", op.Call.Number)
	}
}

func TestR68_AnIDMismatchMeansAlreadyReplaced(t *testing.T) {
	op, now := to(t, Delete, Booting)
	f := quiet(now)
	f.Platform.VMUUID = "vm-2"
	_, effects := step(t, op, f, now, Done)
	wantNoEffects(t, effects)
}

func TestR68_ATerminatingCVMIsNotDeletedAgain(t *testing.T) {
	op, now := to(t, Delete, Acting)
	settled := now.Add(limits.Settle)
	f := quiet(settled)
	f.Platform.InProgress = true
	_, effects := step(t, op, f, settled, Acting)
	wantNoEffects(t, effects)
	f.Platform = nil
	op, _ = step(t, op, f, settled, Booting)
	step(t, op, f, settled, Done)
}

func TestR69_AnObservationBeforeACallProvesNothingAboutTheCall(t *testing.T) {
	op, now := to(t, Update, Acting)
	settled := now.Add(time.Minute)
	f := quiet(settled)
	f.ObservedAt = op.Call.IssuedAt.Add(-time.Second)
	_, effects := step(t, op, f, settled, Acting)
	wantNoEffects(t, effects)
}

func TestR70_ReissueIsReValidated(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Facts)
		want Phase
	}{
		"still wanted and safe": {func(*Facts) {}, Acting},
		"not wanted any more":   {func(f *Facts) { f.Unwanted = "the spec moved on" }, Aborted},
		"paused":                {func(f *Facts) { f.Paused = true }, Aborted},
		"not safe now":          {func(f *Facts) { f.Safe = false }, Acting},
	} {
		op, now := to(t, Update, Acting)
		settled := now.Add(limits.Settle)
		f := quiet(settled)
		c.edit(&f)
		op, effects := step(t, op, f, settled, c.want)
		switch {
		case c.want == Aborted:
			wantOrder(t, effects, VerbCancelDrain)
			if o, ok := CurrentOrder(op); !ok || o.Verb != VerbCancelDrain {
				t.Errorf("%s: order %+v %t", name, o, ok)
			}
		case f.Safe:
			wantCall(t, effects, Update, 2)
		default:
			wantNoEffects(t, effects)
		}
	}
}

// TestR70_CrashTable: each row holds the record of the dead leader, the successor's facts, and the successor's action.
func TestR70_CrashTable(t *testing.T) {
	at := start.Add(time.Hour)
	for name, c := range map[string]struct {
		phase  Phase
		facts  func(time.Time) Facts
		want   Phase
		effect string
	}{
		"after the call, effect in progress":         {Acting, rebooting, Acting, ""},
		"after the call, effect present":             {Acting, booted, Booting, ""},
		"after the intent to call, before the call":  {Acting, quiet, Acting, ""},      // see R62
		"after the call was accepted, still booting": {Booting, rebooting, Failed, ""}, // an hour later
		"after the boot was admitted":                {Booting, booted, Joining, "order"},
	} {
		t.Run(name, func(t *testing.T) {
			op, _ := to(t, Update, c.phase)
			f := c.facts(at)
			f.Term = op.Term + 1
			_, effects := step(t, op, f, at, c.want)
			got := ""
			for _, e := range effects {
				got = map[EffectKind]string{SendOrder: "order", CallPlatform: "call"}[e.Kind]
			}
			if got != c.effect {
				t.Errorf("effects %+v, want %q", effects, c.effect)
			}
		})
	}
}

// The age of a call by another clock is unknown: an hour by this clock may be a second.
func TestR62_ASuccessorWaitsTheWholeTimeThatAnEffectMayTake(t *testing.T) {
	op, _ := to(t, Update, Acting)
	at, term := start.Add(time.Hour), op.Term+1
	look := func(now time.Time) (f Facts) {
		f = quiet(now)
		f.Term = term
		return f
	}
	op, effects := step(t, op, look(at), at, Acting)
	wantNoEffects(t, effects)
	at = at.Add(limits.Settle)
	_, effects = step(t, op, look(at), at, Acting)
	wantCall(t, effects, Update, 2)
}

func TestR70_MinReadyGoesOnAfterATakeover(t *testing.T) {
	op, _ := to(t, Update, Settling)
	since := op.Seen.AvailableSince
	at := since.Add(limits.MinReady)
	f := available(at, since)
	f.Term = op.Term + 1
	step(t, op, f, at, Done)
}
