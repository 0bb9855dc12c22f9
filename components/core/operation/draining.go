package operation

import (
	"cmp"
	"time"
)

// fromDraining waits for the agent. Its hooks carry their own time-outs and results; the deadline here only covers an
// agent that stopped (R79, R80).
func (op Operation) fromDraining(f Facts, now time.Time) (Operation, []Effect) {
	step := op.step(f, VerbDrain)
	op.noteTransfer(step)
	if next, gone := op.makesWay(f, now); gone {
		return next, nil
	}
	if f.Gone || op.goneQuiet(f, now) {
		// No Boot is left to answer, so waiting for the deadline is useless. The precommit check decides whether it is
		// safe to go on.
		if next, effects, off := op.calledOff(f, now); off {
			return next, effects
		}
		return op.enter(Drained, now).because("the boot that was to drain is gone"), nil
	}
	if f.NotServing {
		op.Outage.begin(now)
	}
	if next, effects, off := op.calledOff(f, now); off {
		return next, effects
	}
	switch step.State {
	case StepDone:
		op = op.enter(Drained, now).because("drained")
		if op.Kind != Drain {
			op.Reason = "acts next" // the Phase already says that the member is drained
		}
		return op, nil
	case StepAborted, StepFailed:
		reason := cmp.Or(step.Message, "the drain was called off by the agent")
		if step.State == StepAborted && op.Actor == ActorHealing && op.Kind == Restart && !op.withoutHooks() {
			return op.drainWithoutHooks(reason, f, now)
		}
		return op.undrainable(CauseHook, reason, now)
	case StepHeld:
		// The hook holds beyond the deadline too, until an operator decides (R80).
		return op.because("held by a hook: " + cmp.Or(step.Message, "an operator must decide") + "; " + op.wayOut(f)), nil
	case StepRunning:
		op = op.because(cmp.Or(step.Message, "the agent drains"))
	}
	if !now.Before(op.Times.DrainBy) {
		return op.undrainable(CauseDrainDeadline, "the drain did not end in time", now)
	}
	return op, nil
}

// wayOut names the operator's way to end a step that a hook holds, in addition to completing the hook.
func (op Operation) wayOut(f Facts) string {
	switch {
	case op.Set.Leaves:
		return "complete the hook: its member was told to leave its set, so it is not called off"
	case op.Touched():
		return "complete the hook: half of the change is there, so it is not called off"
	case op.Kind == Drain:
		return "complete the hook, or put the slot back with cadre instance undrain " + op.Slot
	case f.Ending:
		return "complete the hook, or take the deletion of the group back with cadre group delete " + op.Group + " --cancel"
	case op.Kind == Restart && (op.Actor == ActorHealing || op.Before.Unavailable):
		// The repair of a down member goes on during a pause or a protection.
		return "complete the hook, or call it off with cadre freeze " + op.Group
	case op.Actor == ActorOperator:
		return "complete the hook, or call it off with cadre instance protect " + op.Slot
	}
	return "complete the hook, or pause the group or change the spec to call it off"
}

// drainWithoutHooks drains a member that is being healed again, for its hand-over alone, after a hook aborted the
// drain. Hooks query an unhealthy workload and would keep it unhealthy. A hook that still holds waits for an operator.
func (op Operation) drainWithoutHooks(reason string, f Facts, now time.Time) (Operation, []Effect) {
	op.Attempt++
	op.Failure.Cause = CauseHook
	op.Times.DrainBy = now.Add(f.Limits.Drain)
	return op.enter(Draining, now).because("drains without its hooks, to be healed: " + reason), []Effect{{Kind: SendOrder, Verb: VerbDrain}}
}

// undrainable ends a failed drain, and the member returns to service. A member that was ordered to leave its set may
// already be out of it. A half-done change cannot be reverted either. Both steps go on.
func (op Operation) undrainable(cause Cause, reason string, now time.Time) (Operation, []Effect) {
	if op.Touched() {
		return op.enter(Drained, now).because(reason + "; the step is half done and goes on"), nil
	}
	return op.callOff(cause, reason, now)
}
