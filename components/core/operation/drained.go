package operation

import (
	"fmt"
	"time"
)

// fromDrained checks a second time, then commits to the one call (R50, R60).
func (op Operation) fromDrained(f Facts, now time.Time) (Operation, []Effect) {
	if op.Way.Refreshes() && op.newBoot(f) {
		// The policy was written before this step went on, and the Boot attested first. If the step were called off now,
		// the Slot's record would name From.
		op.Call.HashWanted, op.Times.HealthyBy = f.WantedHash, now.Add(f.Limits.Healthy)
		return op.enter(Booting, now).because("attested at the new revision"), nil
	}
	if op.Undoes() {
		return op.startAgain(f, now)
	}
	op, rests := op.staysStopped(f, now)
	if rests {
		return op, nil
	}
	if op.upMeanwhile(f) {
		return op.join(f, "admitted", now)
	}
	if next, effects, off := op.calledOff(f, now); off {
		return next, effects
	}
	if next, gone := op.makesWay(f, now); gone {
		return next, nil
	}
	gone, endless := op.Kind == Replace && op.CVM.VMUUID == "", op.Touched() && !now.Before(op.Times.DrainBy)
	if !gone && !endless && op.step(f, VerbDrain).State == StepRunning {
		// The member took up duties again: a drain does not last (R86).
		return op.enter(Draining, now).because("the agent drains again"), nil
	}
	if op.leadsOnceMore(f, now) {
		return op.relieve(f, now)
	}
	reason, ok := op.mayAct(f)
	if ok {
		if reason, ok = op.outOfSet(f); !ok {
			op = op.leave(f, now)
		}
	}
	if !ok {
		switch {
		case op.Touched():
			// Half of the change is applied: the step waits as long as a boot may take.
			return op.because(reason).overdueInSet(f, now)
		case !now.Before(op.Times.DrainBy):
			return op.callOff(f.unsafe(), reason, now)
		}
		return op.because(reason), nil
	}
	if op.Way.Refreshes() {
		return op.refresh(f, now)
	}
	if op.Way.Service != "" {
		return op.restartService(f, now)
	}
	if next, done := op.alreadySo(f, now); done {
		return next, nil
	}
	return op.call(f, now)
}

// leadsOnceMore: a member that handed leadership over before the first part of a change leads again between two parts
// (R86). The leading Boot is new, or is the old Boot, because the platform only noted the part and did not restart the
// CVM. Without a second hand-over the step would wait until its deadline. CallIssuedAt is zero from then on; a member
// that still leads is asked again.
func (op Operation) leadsOnceMore(f Facts, now time.Time) bool {
	a := f.Admission
	if op.Kind != Update || len(op.Call.Applied) == 0 || !f.Leads || f.HandOver == nil || a == nil || a.BootID == "" {
		return false
	}
	asked := op.Call.IssuedAt.IsZero()
	livesOn := !asked && op.Call.outlived(a.BootID, f)
	drained := op.Entered[Drained]
	began := op.Times.HealthyBy.Add(-f.Limits.Drain - f.Limits.Healthy) // the time of the first order
	again := asked && !now.Before(drained.Add(max(leadsAgainAfter, drained.Sub(began))))
	return a.BootID != op.Before.BootID || livesOn || again
}

// relieve orders a hand-over between two parts. The hand-over does not count as the rollout's planned transfer. At
// that time the member's Boot stays. The first hand-over of a Boot has a time of its own; later hand-overs of that
// Boot share that time.
func (op Operation) relieve(f Facts, now time.Time) (Operation, []Effect) {
	if !op.Call.IssuedAt.IsZero() || f.Admission.BootID != op.Before.BootID {
		op.Times.HealthyBy = now.Add(f.Limits.Drain + f.Limits.Healthy)
	}
	relief := *f.HandOver
	relief.Relief = true
	f.HandOver, op.Call.IssuedAt = &relief, time.Time{}
	return op.drainAnew(f, "leads again after the first part of the change, and is asked to hand over", now)
}

// alreadySo adopts an effect that exists without a call of this Operation: a CVM under the Slot's name (R67), or a
// deleted CVM (R68).
func (op Operation) alreadySo(f Facts, now time.Time) (Operation, bool) {
	switch {
	case op.formerIsBack(f):
		return op, false
	case f.Platform != nil && op.wants(PartCreate, f):
		return op.adopt(f, now), true
	case op.Kind == Delete && f.PlatformKnown && f.Platform == nil:
		return op.end(Done, "", "the CVM is gone", now), true
	}
	return op, false
}

// call enters Acting and returns the call of the next part. It records the state before the call, and each later
// leader judges the effect against that state.
func (op Operation) call(f Facts, now time.Time) (Operation, []Effect) {
	parts := op.parts(f)
	if len(parts) == 0 {
		return op.changed(f, now), nil
	}
	if op.Call.Part == "" {
		op.Before.Stopped = f.Platform != nil && f.Platform.Stopped
	}
	force := op.forces(parts[0], f, now)
	op.Call.issue(parts[0], f, now)
	op.Call.Force = force && parts[0] == PartStop
	if op.Kind != Create {
		op = op.stops(f, now)
	}
	if op.Phase != Acting {
		op = op.enter(Acting, now)
	}
	op = op.because(fmt.Sprintf("platform call %d issued: %s", op.Call.Number, op.Call.Part))
	if op.Call.Force {
		op.Reason += ", without asking the guest"
	}
	return op, []Effect{{Kind: CallPlatform, Call: op.Call.Part, NotOn: f.NotOn, Force: force, Shape: op.change(f), VMUUID: op.CVM.VMUUID, InstanceID: op.CVM.InstanceID, Number: op.Call.Number}}
}

// undo records why the change is not made after the CVM was stopped. The step ends once the CVM starts as it was: no
// member stays down for a change that cannot be made.
func (op Operation) undo(cause Cause, reason string, f Facts, now time.Time) Operation {
	op.Failure.Cause, op.Failure.Signature = cause, reason
	op.Times.HealthyBy = now.Add(f.Limits.Healthy)
	return op.enter(Drained, now).because(reason + "; the CVM is started again as it was")
}

// startAgain starts the stopped CVM, unless its host did so. After a whole healthy deadline the step ends without it.
func (op Operation) startAgain(f Facts, now time.Time) (Operation, []Effect) {
	reason, ok := op.mayAct(f)
	switch up := ok && !op.isStopped(f); {
	case up, f.PlatformKnown && !now.Before(op.Times.HealthyBy):
		return op.end(Failed, op.Failure.Cause, op.Failure.Signature, now), op.cancelDrain()
	case !ok:
		return op.because(reason), nil
	}
	return op.call(f, now)
}
