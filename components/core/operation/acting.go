package operation

import (
	"cmp"
	"fmt"
	"time"
)

// MaxWait bounds the wait between two calls to a busy platform, and between two steps without effect. The bound lets
// an operator at the screen see the next attempt.
const MaxWait = 2 * time.Minute

// fromActing decides the outcome of the platform call. The record alone never proves that the call reached the
// platform; an answer or a read-back does (R65, R66).
func (op Operation) fromActing(f Facts, now time.Time) (Operation, []Effect) {
	if c := f.Call; c != nil && c.Number == op.Call.Number && op.Call.Outcome == "" {
		return op.answered(*c, f, now)
	}
	if next, ended := op.gone(f, now); ended {
		return next, nil
	}
	if op.Call.InVain() {
		if op.Call.Outcome == OutcomeNotMade && op.showsItself() && op.readBack(f, now) == effectSeen {
			return op.accepted(f, now), nil // the effect showed late, so the call is not repeated
		}
		return op.retryBusy(f, now)
	}
	if op.Call.Outcome == OutcomeDone {
		if next, failed := op.taskFailed(f, now); failed {
			return next, nil
		}
		return op.nextPart(f, now)
	}
	switch seen := op.readBack(f, now); seen {
	case effectSeen:
		if f.Task != nil {
			op.Call.Correlation = f.Task.Correlation
		}
		return op.accepted(f, now), nil
	case effectAbsent:
		next, effects := op.reissue(f, now)
		waits := next.Phase == Acting && len(effects) == 0
		if (waits || next.Phase.Ended()) && op.Kind == Update && op.showsItself() {
			// A later step reads from this outcome which shape or compose file the CVM last received. While this step waits
			// for other Slots, they must not wait for the outcome of its call.
			next.Call.Outcome = OutcomeNotMade
		}
		return next, effects
	case effectUnknown:
	}
	if f.Duplicates > 0 {
		return op.because(duplicates(f)), nil
	}
	if op.Call.overdue(f.Limits, now) {
		return op.because("platform_result_unknown: the effect of the platform call is unknown; look at the CVM on the platform, then record the effect: cadre operation mark-succeeded|mark-failed " + op.ID), nil
	}
	return op.because("reads back what the platform call did"), nil
}

// answered records the outcome of the recorded call.
func (op Operation) answered(c CallResult, f Facts, now time.Time) (Operation, []Effect) {
	op.Call.Outcome = c.Outcome
	op.Call.Correlation = cmp.Or(c.Correlation, op.Call.Correlation)
	switch c.Outcome {
	case OutcomeDone:
		op.CVM = op.CVM.Named(c.VMUUID, c.InstanceID)
		if c.OSImage {
			op.Call = op.Call.with(PartOSImage)
		}
		return op.accepted(f, now), nil
	case OutcomeRefused:
		return op.refused(c, f, now)
	case OutcomeBusy:
		return op.because("the platform is busy: " + c.Message), nil
	case OutcomeNotMade:
		return op.because("not called: " + c.Message), nil
	case OutcomeUnknown:
	}
	op.Call.Outcome = OutcomeUnknown
	return op.because("the platform call's outcome is unknown: " + c.Message), nil
}

// refused ends the Operation and returns the member to service, because nothing happened on the platform. A Delete
// succeeds when its CVM is gone (R68). A member that already left its set has no service to return to, so the platform
// is called again.
func (op Operation) refused(c CallResult, f Facts, now time.Time) (Operation, []Effect) {
	if op.isOut(f) {
		return op.because("the platform refused, and is asked again, since " + op.Slot + " is out of its set already: " + c.Message), nil
	}
	reason := "the platform refused: " + c.Message
	switch stopped := op.Call.Has(PartStop); {
	case stopped && op.Call.Part == PartRestart:
		return op.because(reason + "; it is asked again, since the CVM is down"), nil
	case op.stoppedInVain():
		return op.undo(CauseRefused, reason, f, now), nil
	}
	return op.giveBack(Failed, CauseRefused, reason, now)
}

// retryBusy repeats the call after a growing wait: a busy answer or a refusal proves that the call had no effect.
func (op Operation) retryBusy(f Facts, now time.Time) (Operation, []Effect) {
	wait := min(time.Second<<min(max(op.Call.Number, 0), 10), MaxWait)
	if now.Sub(op.Call.IssuedAt) < wait {
		return op, nil
	}
	return op.reissue(f, now)
}

// reissue repeats a call that certainly had no effect, if the call is still wanted and still safe. Otherwise the Slot
// returns to service (R70).
func (op Operation) reissue(f Facts, now time.Time) (Operation, []Effect) {
	if op.Undoes() {
		return op.startAgain(f, now)
	}
	if op.upMeanwhile(f) {
		return op.join(f, "admitted", now)
	}
	if next, effects, off := op.calledOff(f, now); off {
		return next, effects
	}
	if reason, out := op.outOfSet(f); !out {
		return op.leave(f, now).because(reason).overdueInSet(f, now)
	}
	if next, done := op.alreadySo(f, now); done {
		return next, nil // an earlier call or an outside change had the effect
	}
	if op.Kind == Replace && op.Call.Part == PartDelete {
		if !f.PlatformKnown {
			return op.because("waits for the platform's listing"), nil // without a listing, an unlisted CVM does not count as missing
		}
		// No call deleted the CVM, so a single listing may be older than the CVM.
		missed := op.wants(PartCreate, f)
		switch twice := op.Seen.missing(missed, f.ObservedAt); {
		case twice:
			op.Seen.GoneSince = time.Time{}
			return op.goOn(now).because("the CVM is gone"), nil
		case missed:
			return op.because("the platform does not list the CVM; a second listing tells whether it is gone"), nil
		}
	}
	if op.Actor == ActorHealing && op.Kind == Restart && !op.Touched() && now.Sub(op.Entered[Acting]) >= f.Limits.Unknown {
		// The step counts as an attempt, and other down members no longer wait for it.
		why := op.Reason
		if op.Call.Undecided() {
			why = fmt.Sprintf("how its call %d ended is not known, and it is down as before", op.Call.Number)
		}
		return op.callOff(CauseUnsafe, "the platform does not start it: "+why, now)
	}
	if reason, ok := op.mayAct(f); !ok {
		switch {
		case op.leadsOnceMore(f, now):
			return op.enter(Drained, now).because("the call had no effect, and the member leads again"), nil
		case op.Call.Part == PartStop && op.Call.Outcome == OutcomeDone:
			return op.because("the stop does not show yet; "+reason).overdueInSet(f, now)
		case op.Touched():
			return op.because("the call had no effect; "+reason).overdueInSet(f, now)
		case !now.Before(op.Times.DrainBy.Add(f.Limits.Unknown)):
			return op.callOff(f.unsafe(), reason, now)
		}
		return op.because("the call had no effect; " + reason), nil
	}
	if op.Touched() {
		// A half-done change is not called off. No newer spec changes To before its call is decided. Only its
		// deadline ends it.
		next, effects := op.overdueInSet(f, now)
		if next.Phase.Ended() {
			return next, effects
		}
		op = next
	}
	return op.call(f, now)
}

// accepted records that the platform accepted the call. Once no part is left, the step waits for the new boot; the
// healthy deadline runs from here (R87).
func (op Operation) accepted(f Facts, now time.Time) Operation {
	op.Call.Outcome = OutcomeDone
	op.Times.HealthyBy = now.Add(f.Limits.Healthy)
	if more := op.rest(f); len(more) > 0 {
		then := ", then " + string(more[0])
		if more[0] == op.Call.Part {
			then = "" // the start of a CVM as it was
		}
		return op.because(fmt.Sprintf("%s is accepted; waits until the platform shows it%s", op.Call.Part, then))
	}
	return op.changed(f, now)
}

// changed: no call is left to make, and the step waits for the new Boot.
func (op Operation) changed(f Facts, now time.Time) Operation {
	op.Call.Outcome, op.Times.HealthyBy = OutcomeDone, now.Add(f.Limits.Healthy)
	op = op.apply()
	switch op.Kind {
	case Create, Replace:
		return op.adopt(f, now)
	case Delete:
		return op.enter(Booting, now).because("waits for the platform to remove the CVM")
	case Update, Restart, Drain, Stop:
	}
	return op.enter(Booting, now).because("waits for the new boot")
}

// apply counts the last call's part as applied.
func (op Operation) apply() Operation {
	op.Call = op.Call.with(op.Call.Part)
	return op
}

// rest returns the parts that follow the part of the last call.
func (op Operation) rest(f Facts) []Part {
	if op.Kind == Replace && op.Call.Part == PartDelete {
		return []Part{PartCreate}
	}
	if op.Call.Part == PartStop && f.Platform != nil {
		stopped := *f.Platform
		stopped.Stopped, f.Platform = true, &stopped
	}
	return op.apply().parts(f)
}

// nextPart waits until the platform shows the accepted part, and then checks again before the next part. Another
// change may have come between, and a member that came up meanwhile is drained again.
func (op Operation) nextPart(f Facts, now time.Time) (Operation, []Effect) {
	there := op.shown(op.Call.Part, f)
	if op.Call.Part == PartDelete {
		there = op.isGone(f)
	}
	switch {
	case there:
	case op.Call.Part == PartStop && (now.Sub(op.Call.IssuedAt) >= StopWithin || op.bootedSince(f)):
		return op.reissue(f, now) // the guest does not shut down, or the host started it again
	case op.Call.Part == PartRestart && op.isStopped(f) && op.Call.settled(f, now):
		return op.reissue(f, now) // the CVM went down again
	case op.Call.overdue(f.Limits, now):
		return op.because(fmt.Sprintf("platform_result_unknown: the platform accepted %s and does not show it; look at the CVM, then record the effect: cadre operation mark-succeeded|mark-failed %s", op.Call.Part, op.ID)), nil
	default:
		return op, nil
	}
	return op.goOn(now).because("goes on with the next change"), nil
}

// goOn counts the last call's part as applied and checks again before the next part.
func (op Operation) goOn(now time.Time) Operation {
	if op.Kind == Replace && op.Call.Part == PartDelete {
		// The old CVM is gone: the names recorded from here on are the new CVM's.
		op.CVM = op.CVM.unnamed()
	}
	return op.apply().enter(Drained, now)
}

// adopt takes the CVM under the Slot's name as the CVM that Create makes (R67).
func (op Operation) adopt(f Facts, now time.Time) Operation {
	if p := f.Platform; p != nil {
		op.CVM = op.CVM.Named(p.VMUUID, p.InstanceID)
	}
	op.Times.HealthyBy = now.Add(f.Limits.Healthy)
	return op.enter(Booting, now).because("waits for the first boot")
}
