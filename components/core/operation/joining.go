package operation

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// fromBooting waits until a new Boot is admitted at the wanted Revision: the platform's report alone proves nothing
// (R4).
func (op Operation) fromBooting(f Facts, now time.Time) (Operation, []Effect) {
	if op.Kind == Delete {
		return op.fromDeleting(f, now)
	}
	if next, ended := op.gone(f, now); ended {
		return next, nil
	}
	if op.Way.Service != "" {
		return op.fromRestarting(f, now)
	}
	p := f.Platform
	if p != nil && op.Kind.another() {
		op.CVM = op.CVM.Named(p.VMUUID, p.InstanceID)
	}
	if p != nil && p.Running && !op.Way.Refreshes() && op.Seen.RunningSince.IsZero() && (!op.hashTells() || p.ComposeHash == op.Call.HashWanted) {
		op.Seen.RunningSince = now
	}
	if op.newBoot(f) && op.Way.Refreshes() {
		return op.enter(Joining, now).because(cmp.Or(f.ReadyReason, "attested again")), nil
	}
	if op.newBoot(f) {
		return op.join(f, "admitted", now)
	}
	if op.Way.Refreshes() && f.Elsewhere && f.Unwanted != "" {
		return op.callOff(CauseUnwanted, f.Unwanted, now) // the platform changed nothing on its CVM
	}
	op.forgetOldBootError(f)
	if next, failed := op.bootError(f, now); failed {
		return next, nil
	}
	if next, failed := op.taskFailed(f, now); failed {
		return next, nil
	}
	if op.keptDown(f) && op.Call.settled(f, now) {
		return op.goOn(now).because("the platform changed the CVM and keeps it down, as it was: it is started"), nil
	}
	refusal := op.refusal(f)
	switch {
	case refusal != nil:
		op = op.because(refusal.Text())
	case !op.Seen.RunningSince.IsZero():
		op = op.because("the CVM runs; waits for its boot to be admitted")
	case p != nil && p.InProgress && p.Stuck:
		op = op.because(cmp.Or(f.ReadyReason, "the platform is busy with the CVM"))
	}
	return op.overdue(f, now)
}

// join starts the wait for hooks, health and catch-up.
func (op Operation) join(f Facts, why string, now time.Time) (Operation, []Effect) {
	why = cmp.Or(f.ReadyReason, why)
	if f.PostLaunch {
		why = "waits for POST_LAUNCH hooks"
	}
	return op.enter(Joining, now).because(why), []Effect{{Kind: SendOrder, Verb: VerbPostLaunch}}
}

// fromDeleting waits until the CVM is gone from the platform's listing and from the workload's set.
func (op Operation) fromDeleting(f Facts, now time.Time) (Operation, []Effect) {
	if !op.isGone(f) {
		return op.overdue(f, now)
	}
	if reason, out := op.outOfSet(f); !out {
		return op.leaveAs(f).because(reason).overdue(f, now)
	}
	return op.end(Done, "", "the CVM is gone", now), nil
}

// fromJoining waits for hooks, health and catch-up.
func (op Operation) fromJoining(f Facts, now time.Time) (Operation, []Effect) {
	if next, failed := op.lost(f, now); failed {
		return next, nil
	}
	if f.PostLaunch && !op.Way.Refreshes() {
		step := op.step(f, VerbPostLaunch)
		switch step.State {
		case StepDone:
		case StepAborted, StepFailed:
			return op.fail(Failure{Cause: CausePostLaunch}, cmp.Or(step.Message, "a POST_LAUNCH hook called it off"), now)
		case StepHeld:
			return op.because("held by a hook: " + cmp.Or(step.Message, "an operator must decide")), nil
		default:
			return op.because(cmp.Or(step.Message, "waits for POST_LAUNCH hooks")).overdue(f, now)
		}
	}
	if f.ReadySince.IsZero() && f.AwaitsQuorum && op.newBoot(f) {
		return op.end(Done, "", "runs what it should; the quorum that it waits for is restored by the other steps", now), nil
	}
	if f.ReadySince.IsZero() || !op.newBoot(f) {
		return op.because(cmp.Or(f.ReadyReason, "waits to become available")).overdue(f, now)
	}
	if op.unjudged(f) {
		return op.because("available; "+f.Unjudged).overdue(f, now)
	}
	if op.hashTells() && f.Platform != nil && f.Platform.ComposeHash != op.Call.HashWanted {
		return op.because("the platform shows another compose hash than the one called for").overdue(f, now)
	}
	// A refresh gave no size: a size that the Slot got meanwhile is another step.
	if op.Call.Shapes() && op.Kind == Update && f.Platform != nil && !f.Platform.Shape.Shows(f.WantedShape) {
		return op.because("the platform shows another instance type, OS image or disk than the one called for").overdue(f, now)
	}
	// Availability from before this phase, or from before new checks were judged, proves nothing about this step.
	op.Seen.AvailableSince = latest(f.ReadySince, op.Entered[Joining])
	if op.Way.Refreshes() {
		op.Seen.AvailableSince = now
	}
	if !op.Outage.From.IsZero() || !op.Way.Refreshes() {
		op.Outage.Until = op.Seen.AvailableSince
	}
	return op.enter(Settling, now).because("available; waits for min_ready"), nil
}

// fromSettling counts min_ready without a break (R8): the step is done when the time since is equal or longer.
func (op Operation) fromSettling(f Facts, now time.Time) (Operation, []Effect) {
	if next, failed := op.lost(f, now); failed {
		return next, nil
	}
	if !f.PlatformKnown {
		return op, nil // a missing observation is no setback; the next pass brings the proof
	}
	if f.ReadySince.IsZero() || !op.newBoot(f) || op.unjudged(f) {
		op.Seen.AvailableSince, op.Outage.Until = time.Time{}, time.Time{}
		return op.enter(Joining, now).because("fell back: " + cmp.Or(f.ReadyReason, cmp.Or(f.Unjudged, "not available"))), nil
	}
	if f.ReadySince.After(op.Seen.AvailableSince) {
		// The report proves a break that this leader did not observe (R8).
		op.Seen.AvailableSince = f.ReadySince
		if !op.Way.Refreshes() {
			op.Outage.Until = f.ReadySince
		}
	}
	if left := f.Limits.MinReady - now.Sub(op.Seen.AvailableSince); left > 0 {
		return op.because("available; waits for min_ready").overdue(f, now)
	}
	return op.end(Done, "", "available for min_ready", now), nil
}

// lost fails an Operation whose CVM certainly cannot recover automatically.
func (op *Operation) lost(f Facts, now time.Time) (Operation, bool) {
	if next, ended := op.gone(f, now); ended {
		return next, true
	}
	if f.ReadySince.IsZero() {
		return op.bootError(f, now)
	}
	return *op, false
}

// bootError fails at once when the platform reports that the new boot cannot work (R89).
func (op Operation) bootError(f Facts, now time.Time) (Operation, bool) {
	p := f.Platform
	if p == nil || p.InProgress || p.BootError == "" || p.BootError == op.Call.BootErrorBefore || keysUndecided(p.BootError) {
		return op, false
	}
	reason := bootReason(p.BootError)
	if strings.Contains(p.BootError, startFailed) {
		reason += f.mayNotPull()
	}
	next, _ := op.fail(Failure{Cause: CauseBootError, Signature: Signature(reason)}, reason, now)
	return next, true
}

// startFailed is the whole report of a dstack guest to its host when `docker compose up` fails. A failed pull is one
// cause (app-compose.sh of dstack 0.5 and 0.6).
const startFailed = "failed to start containers"

// maxNewImages bounds the images that a reason names.
const maxNewImages = 3

// mayNotPull names the new images of this boot as suspects. No platform reports which image its guest failed to pull.
func (f Facts) mayNotPull() string {
	if len(f.NewImages) == 0 {
		return ""
	}
	named, more := f.NewImages[:min(len(f.NewImages), maxNewImages)], ""
	if left := len(f.NewImages) - len(named); left > 0 {
		more = fmt.Sprintf(" and %d more", left)
	}
	return "; an image that is new to this CVM may not be pullable: " + strings.Join(named, ", ") + more
}

// taskFailed fails at once when the platform reports that an accepted change failed: the awaited boot will not come.
func (op Operation) taskFailed(f Facts, now time.Time) (Operation, bool) {
	if t := f.Task; t == nil || t.Failed == "" || op.Call.Correlation != "" && t.Correlation != op.Call.Correlation {
		return op, false
	}
	next, _ := op.fail(Failure{Cause: CauseTask}, "the platform took the call and could not carry it out: "+f.Task.Failed, now)
	return next, true
}

// forgetOldBootError records that the platform cleared the error of the previous boot: the same text now concerns the
// new boot.
func (op *Operation) forgetOldBootError(f Facts) {
	if f.Platform != nil && f.Platform.BootError == "" {
		op.Call.BootErrorBefore = ""
	}
}

// overdue fails at the healthy deadline. A pause stops the clock, and so does a host that does not answer about a CVM
// which the step stopped: an overdue Operation then gets the whole time again (R93).
func (op Operation) overdue(f Facts, now time.Time) (Operation, []Effect) {
	if op.Times.HealthyBy.IsZero() || now.Before(op.Times.HealthyBy) {
		return op, nil
	}
	within, since := f.Limits.Healthy, "the call"
	if op.Way.Service != "" {
		within, since = f.Limits.Service, "the order"
	}
	if f.Paused || op.Call.stops() && !op.Call.starts() && !f.PlatformKnown {
		// A CVM that the step stopped is started when its host answers: no later step would.
		op.Times.HealthyBy = now.Add(within)
		return op, nil
	}
	failure, reason := Failure{Cause: CauseDeadline}, op.Reason
	if op.Phase == Joining && f.Unread != "" {
		reason += "; " + f.Unread
	}
	if op.Phase == Booting {
		refusal := op.refusal(f)
		failure = failure.of(refusal)
		if refusal == nil && !op.Seen.RunningSince.IsZero() {
			reason += f.mayNotPull()
		}
	}
	if op.stoppedInVain() && f.PlatformKnown && op.isStopped(f) {
		return op.undo(CauseDeadline, reason, f, now), nil
	}
	return op.fail(failure, fmt.Sprintf("not available %s after %s: %s", within, since, reason), now)
}

func (op Operation) fail(failure Failure, reason string, now time.Time) (Operation, []Effect) {
	op = op.end(Failed, failure.Cause, reason, now)
	op.Failure = failure
	return op, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// fromRestarting waits for the agent's answer. A CVM that boots meanwhile starts every service again, including this
// service.
func (op Operation) fromRestarting(f Facts, now time.Time) (Operation, []Effect) {
	if a := f.Admission; a != nil && a.BootID != op.Before.BootID && op.newBoot(f) {
		return op.join(f, "the CVM booted by itself", now)
	}
	step := op.step(f, VerbRestartService)
	switch step.State {
	case StepDone:
		return op.join(f, "service "+op.Way.Service+" was restarted", now)
	case StepAborted, StepFailed:
		next, _ := op.fail(Failure{Cause: CauseService}, "service "+op.Way.Service+": "+cmp.Or(step.Message, "the agent could not restart it"), now)
		return next, op.cancelDrain()
	case StepRunning, StepHeld:
		op = op.because(cmp.Or(step.Message, "the agent restarts service "+op.Way.Service))
	}
	return op.overdue(f, now)
}

// overdueInSet fails a step at the healthy deadline if its member is still in its set. A member out of its set gets
// the whole time again, in case the set lists it later.
func (op Operation) overdueInSet(f Facts, now time.Time) (Operation, []Effect) {
	if op.isOut(f) {
		if !now.Before(op.Times.HealthyBy) {
			op.Times.HealthyBy = now.Add(f.Limits.Healthy)
		}
		return op, nil
	}
	return op.overdue(f, now)
}
