package operation

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// stops records which Boot ends now, and that the Slot does not serve from then on.
func (op Operation) stops(f Facts, now time.Time) Operation {
	if op.CVM.admits(f.Admission) {
		op.Before.BootID = f.Admission.BootID
	}
	op.Outage.begin(now)
	return op
}

// forces: the next call, for part, ends the guest without asking. The guest did not shut down within its time, or it
// hangs: a guest whose agent reported since the step was recorded is asked.
func (op Operation) forces(part Part, f Facts, now time.Time) bool {
	asked := op.Phase == Acting && op.Call.Part == PartStop && op.Call.Outcome == OutcomeDone && !op.bootedSince(f)
	hangs := op.Way.Mode == ModeForce && !f.LastReportAt.After(op.Times.Created)
	switch part {
	case PartStop:
		return hangs || asked && now.Sub(op.Call.IssuedAt) >= StopWithin
	case PartRestart:
		return hangs
	case PartCreate, PartDelete, PartCompose, PartOSImage, PartResources, "":
	}
	return false
}

// mayAct checks every condition right before the irreversible call.
func (op Operation) mayAct(f Facts) (reason string, ok bool) {
	switch {
	case !f.PlatformKnown:
		return cmp.Or(f.Unlisted, "waits for the platform's listing"), false
	case f.Duplicates > 0:
		return duplicates(f), false
	case op.CVM.replaced(f.Platform):
		return "the platform shows another CVM in place of " + op.CVM.VMUUID, false
	case op.formerIsBack(f):
		return "the platform lists CVM " + f.Platform.VMUUID + " again, which was replaced: delete it there", false
	case f.Platform == nil && op.Kind == Replace && op.CVM.VMUUID != "" && op.Call.Part == "":
		return "the platform does not list CVM " + op.CVM.VMUUID + ", and is asked once more", false
	case f.Platform == nil && op.Kind.InPlace():
		return "the platform does not list CVM " + op.CVM.VMUUID, false
	case f.Platform != nil && f.Platform.InProgress && !f.Platform.Stuck && op.Kind != Create && op.Kind != Delete && !op.asksLong(f):
		return "the platform is busy with the CVM", false
	case !f.Safe && !op.Undoes():
		return "not safe to act: " + cmp.Or(f.SafeReason, "unknown"), false
	}
	return "", true
}

// MayCall is the last check, after the record says Acting and right before the call leaves. f was observed since then.
// The caller answers a refusal with OutcomeNotMade.
func MayCall(op Operation, f Facts) (reason string, ok bool) {
	switch {
	case op.Touched():
	case f.Unwanted != "":
		return f.Unwanted, false
	case f.Paused:
		return f.stopped(), false
	case f.Refused != "":
		return f.Refused, false
	}
	if op.Call.Part == PartCreate && f.Platform != nil && f.Duplicates == 0 && !op.formerIsBack(f) {
		return "CVM " + f.Platform.VMUUID + " carries the slot's name already", false
	}
	if op.Call.Part == PartCompose && f.StopFirst && !op.isStopped(f) {
		return "the CVM runs again, and is stopped before its files change", false
	}
	if op.Call.Part == PartCreate && f.Misplaced != "" {
		return f.Misplaced, false
	}
	if reason, ok := op.mayAct(f); !ok {
		return reason, false
	}
	return op.outOfSet(f)
}

// asksLong: the platform waits for the guest of a stop that was called earlier.
func (op Operation) asksLong(f Facts) bool {
	return op.Call.Force || op.Phase == Acting && op.Call.Part == PartStop && f.ObservedAt.Sub(op.Call.IssuedAt) >= StopWithin
}

func duplicates(f Facts) string {
	return fmt.Sprintf("duplicate_instance: %d more CVMs carry this slot's name; remove the wrong ones on the platform", f.Duplicates)
}

// calledOff ends an Operation before it has an effect, if it is no longer wanted or its call would be useless. The
// member returns to service at once (R74, R82, R92, R105).
func (op Operation) calledOff(f Facts, now time.Time) (Operation, []Effect, bool) {
	cause, reason := CauseUnwanted, f.Unwanted
	switch {
	case reason != "":
	case op.Kind == Create && op.Call.Number == 0 && f.Platform != nil && f.Platform.Unbound:
		// The CVM belongs to another client. The listing of the decision did not show it yet.
		cause, reason = CauseUnsafe, "CVM "+f.Platform.VMUUID+" carries the slot's name and no record binds it: cadre group adopt "+op.Group
	case f.Paused:
		cause, reason = CausePaused, f.stopped()+op.askAgain()
	case f.Refused != "":
		cause, reason = CausePrecondition, f.Refused
	}
	if reason == "" || op.Touched() {
		return op, nil, false
	}
	next, effects := op.callOff(cause, reason, now)
	return next, effects, true
}

// CallsOff reports whether Advance would end the Operation by these facts before any effect. Nothing is
// prepared for such an Operation.
func (op Operation) CallsOff(f Facts) bool {
	_, _, off := op.calledOff(f, time.Time{})
	return off
}

// askAgain returns how an operator repeats a request that was called off. The Operation answers the request, and no
// other Operation takes it up.
func (op Operation) askAgain() string {
	if op.Request.ID == "" {
		return ""
	}
	ask := "; ask again: cadre instance " + strings.ToLower(string(op.Kind)) + " " + op.Slot
	if op.Way.Service != "" {
		ask += " --service " + op.Way.Service
	}
	return ask
}

// TakenOver makes f unsafe for op while a call of the previous leader may still be in flight. The current leader took
// the Lease at took; a call lasts at most longest (R62).
func (f *Facts) TakenOver(op Operation, took, now time.Time, longest time.Duration) {
	if op.Call.IssuedAt.IsZero() || op.Call.IssuedAt.After(took) || now.Sub(took) >= longest {
		return
	}
	f.Safe, f.SafeReason = false, "the lease was just taken over: a call of the last leader may still be on its way"
}
