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
	return op.giveBack(Failed, CauseRefused, "the platform refused: "+c.Message, now)
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
	if op.Actor == ActorHealing && op.Kind == Restart && now.Sub(op.Entered[Acting]) >= f.Limits.Unknown {
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
		case op.touched():
			return op.because("the call had no effect; "+reason).overdueInSet(f, now)
		case !now.Before(op.Times.DrainBy.Add(f.Limits.Unknown)):
			return op.callOff(f.unsafe(), reason, now)
		}
		return op.because("the call had no effect; " + reason), nil
	}
	if op.touched() {
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
		return op.because(fmt.Sprintf("%s is accepted; waits until the platform shows it, then %s", op.Call.Part, more[0]))
	}
	op = op.apply()
	switch op.Kind {
	case Create, Replace:
		return op.adopt(f, now)
	case Delete:
		return op.enter(Booting, now).because("waits for the platform to remove the CVM")
	case Update, Restart, Drain:
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
	return op.apply().parts(f)
}

// nextPart waits until the platform shows the accepted part, and then checks again before the next part. Another
// change may have come between, and a member that came up meanwhile is drained again.
func (op Operation) nextPart(f Facts, now time.Time) (Operation, []Effect) {
	there := op.shown(op.Call.Part, f)
	if op.Call.Part == PartDelete {
		there = f.PlatformKnown && op.CVM.gone(f.Platform)
	}
	switch {
	case there:
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

// gone ends an Operation when two listings in a row lack its CVM, or list another CVM in its place. No awaited event
// can arrive then.
func (op *Operation) gone(f Facts, now time.Time) (Operation, bool) {
	if op.Kind.another() || !f.PlatformKnown || op.CVM.VMUUID == "" {
		return *op, false
	}
	if !op.Seen.missing(op.CVM.gone(f.Platform), f.ObservedAt) {
		return *op, false
	}
	cause, reason := CauseVanished, "the platform lists CVM "+op.CVM.VMUUID+" no more: cadre instance replace "+op.Slot
	if op.CVM.replaced(f.Platform) {
		cause, reason = CauseReplaced, "the platform shows another CVM in place of "+op.CVM.VMUUID
	}
	return op.end(Failed, cause, reason, now), true
}

// MadeWay reports that op's call deleted the CVM that op replaces, or that the new CVM is made. From then on the
// Slot's name belongs to the new CVM. Before that, a CVM that left the listing and returned still belongs to the Slot.
func (op Operation) MadeWay() bool {
	if op.Kind != Replace {
		return false
	}
	deleted := op.CVM.VMUUID == "" && op.Call.Has(PartDelete)
	return deleted || op.Decided() || op.Call.Has(PartCreate)
}

// makesWay handles a Replace whose old CVM disappeared without its call, in two listings. Then nothing has to be
// drained or deleted.
func (op *Operation) makesWay(f Facts, now time.Time) (Operation, bool) {
	if op.Kind != Replace || op.CVM.VMUUID == "" || op.Call.Part != "" || !f.PlatformKnown {
		return *op, false
	}
	if !op.Seen.missing(f.Platform == nil, f.ObservedAt) {
		return *op, false
	}
	next := *op
	next.CVM, next.Seen.GoneSince = op.CVM.unnamed(), time.Time{}
	return next.enter(Drained, now).because("the CVM is gone by itself"), true
}

// LiveWithin is how long a live Boot may go without a report: its agent reports at least every 5 s.
const LiveWithin = 6 * time.Second

// goneQuiet: the CVM was already gone when its replacement was decided. The agent's last report was fresh then, and no
// newer report arrived.
func (op Operation) goneQuiet(f Facts, now time.Time) bool {
	return op.Kind == Replace && op.CVM.VMUUID == "" && f.PlatformKnown && f.Platform == nil && now.Sub(f.LastReportAt) >= LiveWithin
}

// adopt takes the CVM under the Slot's name as the CVM that Create makes (R67).
func (op Operation) adopt(f Facts, now time.Time) Operation {
	if p := f.Platform; p != nil {
		op.CVM = op.CVM.Named(p.VMUUID, p.InstanceID)
	}
	op.Times.HealthyBy = now.Add(f.Limits.Healthy)
	return op.enter(Booting, now).because("waits for the first boot")
}

type effectSight int

const (
	effectUnknown effectSight = iota
	effectSeen
	effectAbsent
)

// readBack derives from the platform and the admissions whether the last call had an effect. A task in progress
// decides nothing; its effect shows when the task ends. Absence needs a listing made after the call had time to show.
func (op Operation) readBack(f Facts, now time.Time) effectSight {
	if !f.PlatformKnown || f.Duplicates > 0 {
		return effectUnknown
	}
	settled := op.Call.settled(f, now)
	if t := f.Task; t != nil {
		// The call arrived. While the platform works on the call, the call is never repeated.
		if t.InProgress {
			return effectUnknown
		}
		return effectSeen
	}
	switch {
	case op.Call.Part == PartCreate || op.Kind == Create:
		return presence(f.Platform != nil && !f.Platform.Former, settled)
	case op.Call.Part == PartDelete || op.Kind == Delete:
		if f.Platform != nil && f.Platform.InProgress {
			return effectUnknown // already terminating, not deleted again (R68)
		}
		return presence(op.CVM.gone(f.Platform), settled)
	case op.Call.Part == PartResources || op.Call.Part == PartOSImage:
		return op.readBackShape(f, settled)
	}
	return op.readBackInPlace(f, settled, now)
}

// readBackShape decides for a change that the platform shows in its listing.
func (op Operation) readBackShape(f Facts, settled bool) effectSight {
	switch {
	case !op.CVM.atRest(f.Platform):
		return effectUnknown
	case op.shown(op.Call.Part, f):
		return effectSeen
	case settled:
		return effectAbsent
	}
	return effectUnknown
}

func presence(there, settled bool) effectSight {
	switch {
	case there:
		return effectSeen
	case settled:
		return effectAbsent
	}
	return effectUnknown
}

// readBackInPlace decides for a CVM that stays. The hash decides where old and new differ; a new Boot at the wanted
// Revision always proves the effect. For restarts and updates under the same hash, the platform's update time decides,
// and whether the old Boot still reports.
func (op Operation) readBackInPlace(f Facts, settled bool, now time.Time) effectSight {
	p := f.Platform
	if op.givesUnseen(f) {
		return op.readBackEnv(f, settled)
	}
	if op.newBoot(f) {
		return effectSeen
	}
	if !op.CVM.atRest(p) {
		return effectUnknown
	}
	if op.hashTells() {
		switch {
		case p.ComposeHash == op.Call.HashWanted:
			return effectSeen
		case p.ComposeHash == op.Call.HashBefore && settled:
			return effectAbsent
		}
		return effectUnknown
	}
	if op.Call.updated(p) {
		return effectSeen
	}
	// The CVM is still down, so another start does no harm. Healing calls its step off after that time: the call stays
	// undecided, and a start that shows later does no harm.
	patient := op.Actor == ActorHealing || now.Sub(op.Entered[Acting]) < f.Limits.Unknown
	if asItWas := op.Call.Part == PartRestart || op.Before.Stopped; settled && !p.Running && asItWas && patient {
		return effectAbsent
	}
	if settled && op.Call.outlived(op.Before.BootID, f) {
		return effectAbsent
	}
	return effectUnknown
}

// givesUnseen: the call gives env values under an unchanged compose hash. Any Boot then proves the Revision, even a
// Boot that started before the call was made.
func (op Operation) givesUnseen(f Facts) bool {
	return op.Call.Part == PartCompose && op.Kind == Update && !op.hashTells() && (f.EnvDiffers || op.Call.OwnEnv != f.GivenEnv)
}

// readBackEnv decides by the platform's update time. Without an update time, the call repeats the same values, at the
// price of one more boot in the step of this Slot.
func (op Operation) readBackEnv(f Facts, settled bool) effectSight {
	p := f.Platform
	if !op.CVM.atRest(p) {
		return effectUnknown
	}
	return presence(op.Call.updated(p), settled)
}

// showsItself reports whether the platform's listing of the CVM proves the call's effect: a size, an image, or a hash
// that changes. Only the call can have changed these.
func (op Operation) showsItself() bool {
	switch op.Call.Part {
	case PartResources, PartOSImage:
		return true
	case PartCompose:
		return op.hashTells()
	case PartCreate, PartDelete, PartRestart, "":
	}
	return false
}

// hashTells reports that the compose hash identifies the CVM's content.
func (op Operation) hashTells() bool {
	return op.Kind == Update && op.Call.movesHash()
}

// newBoot reports that a new Boot holds the Slot, at To (R4).
func (op Operation) newBoot(f Facts) bool {
	a := f.Admission
	if !op.CVM.admits(a) || a.BootID == "" || a.Revision != op.To {
		return false
	}
	return a.BootID != op.Before.BootID || op.Way.BootStays() // or the Boot may have returned meanwhile
}

// refusal returns a refusal newer than the call, for example REVISION_NOT_ALLOWED, or nil. A refusal does not end the
// wait: the policy may follow.
func (op Operation) refusal(f Facts) *RefusalView {
	r := f.Refusal
	if r == nil || r.At.Before(op.Call.IssuedAt) || r.At.Before(op.Entered[Drained]) {
		return nil
	}
	return r
}
