package operation

import (
	"cmp"
	"time"
)

// leadsAgainAfter is how long a drained member may lead again before it is ordered to hand over again. Its cluster may
// have no better member just then. Its hooks run each time, so orders between two parts of a change become less
// frequent.
const leadsAgainAfter = time.Minute

// stayDrained keeps a Slot out of service until the drain is no longer wanted. It also drains another Boot of the
// Slot, and a Boot that leads again. If that drain fails, the Slot stays out of service for the operator: a return to
// service would be the worse surprise.
func (op Operation) stayDrained(f Facts, now time.Time) (Operation, []Effect) {
	if f.Unwanted != "" {
		return op.giveBack(Done, "", f.Unwanted, now)
	}
	op.Outage.begin(now)
	if op.Phase == Draining {
		return op.drainedAgain(f, now)
	}
	another := f.Admission != nil && f.Admission.BootID != op.Before.BootID
	// The agent did not report when the Slot was taken out of service, and the Slot serves now.
	missed := op.Entered[Draining].IsZero() && !f.ReadySince.IsZero()
	leads := f.HandOver != nil && now.Sub(op.Entered[Drained]) >= leadsAgainAfter
	switch {
	case another, missed:
		return op.drainAnew(f, "waits for the agent to drain the boot that runs now", now)
	case leads:
		return op.drainAnew(f, "leads again, and is asked to hand over", now)
	}
	return op.atRest(f), nil
}

// atRest reports whether the Slot's Boot is out of service. If not, the reason says that a drain failed or that the
// Boot leads anyway.
func (op Operation) atRest(f Facts) Operation {
	switch step := op.step(f, VerbDrain); step.State {
	case StepDone:
		op.Failure.Cause = "" // done after the deadline
	case StepAborted, StepFailed:
		op = op.notDrained(CauseHook, step.Message)
	case StepRunning, StepHeld, "":
	}
	switch {
	case op.Failure.Cause != "":
		return op // the recorded reason stays
	case f.Leads && f.HandOver == nil:
		return op.because("leads, and nobody can take over: it is asked to hand over once somebody can")
	case f.Leads:
		return op.because("leads again, and is asked to hand over after a moment")
	}
	if op.Entered[Draining].IsZero() {
		return op.because("its agent was silent: no hook ran and nothing was handed over; it is drained once it serves")
	}
	return op.because("out of service until it is undrained")
}

// NotDrained reports that op is at rest and its last drain failed.
func (op Operation) NotDrained() bool {
	return op.Kind == Drain && op.Phase == Drained && op.Failure.Cause != ""
}

// notDrained records why the Slot's Boot could not be drained.
func (op Operation) notDrained(cause Cause, why string) Operation {
	op.Failure.Cause = cause
	return op.because("could not be drained again: " + cmp.Or(why, "the agent did not say why") + "; undrain and drain it to ask once more")
}

// drainAnew orders one more drain of the current Boot.
func (op Operation) drainAnew(f Facts, why string, now time.Time) (Operation, []Effect) {
	op.Attempt++
	op.Failure.Cause = ""
	op.Way.SkipDrain, op.Transfer = false, f.HandOver
	op.Times.DrainBy = now.Add(f.Limits.Drain)
	if f.Admission != nil {
		op.Before.BootID = f.Admission.BootID
	}
	return op.enter(Draining, now).because(why), []Effect{{Kind: SendOrder, Verb: VerbDrain}}
}

// drainedAgain waits for a drain after the first. It ends in DRAINED whether or not the drain succeeds.
func (op Operation) drainedAgain(f Facts, now time.Time) (Operation, []Effect) {
	step := op.step(f, VerbDrain)
	op.noteTransfer(step)
	switch step.State {
	case StepDone:
		return op.enter(Drained, now).because("drained"), nil
	case StepAborted, StepFailed:
		return op.enter(Drained, now).notDrained(CauseHook, step.Message), nil
	case StepHeld:
		return op.because("held by a hook: " + cmp.Or(step.Message, "an operator must decide") + "; " + op.wayOut(f)), nil
	case StepRunning:
		op = op.because(cmp.Or(step.Message, "the agent drains"))
	}
	if f.Gone || !now.Before(op.Times.DrainBy) {
		return op.enter(Drained, now).notDrained(CauseDrainDeadline, "the drain did not end in time"), nil
	}
	return op, nil
}
