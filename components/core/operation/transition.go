package operation

import "time"

// setBack moves the clocks of a phase that began in the future of a new leader. The previous leader's clock was ahead,
// and the new leader must not wait for the difference. The age of a call made by another clock is unknown. The time
// that its effect may take therefore counts from here (R62).
func (op *Operation) setBack(now time.Time) {
	if op.Phase == Acting && (op.Call.Undecided()) {
		defer func() { op.Call.IssuedAt = now }()
	}
	entered := op.Entered[op.Phase]
	ahead := entered.Sub(now)
	if ahead <= 0 {
		return
	}
	op.Entered = op.Entered.with(op.Phase, now)
	for _, at := range []*time.Time{&op.Times.DrainBy, &op.Times.HealthyBy, &op.Call.IssuedAt, &op.Seen.AvailableSince, &op.Seen.GoneSince} {
		if !at.IsZero() {
			*at = at.Add(-ahead)
		}
	}
}

// callOff ends the Operation as Aborted, and the member returns to service.
func (op Operation) callOff(cause Cause, reason string, now time.Time) (Operation, []Effect) {
	return op.giveBack(Aborted, cause, reason, now)
}

// giveBack ends an Operation whose member serves again.
func (op Operation) giveBack(p Phase, cause Cause, reason string, now time.Time) (Operation, []Effect) {
	op.Outage.end(now)
	return op.end(p, cause, reason, now), op.cancelDrain()
}

// cancelDrain withdraws an open drain.
func (op Operation) cancelDrain() []Effect {
	if op.Entered[Draining].IsZero() {
		return nil
	}
	return []Effect{{Kind: SendOrder, Verb: VerbCancelDrain}}
}

// noteTransfer records the agent's report about the planned hand-over (R53).
func (op *Operation) noteTransfer(step StepReport) {
	if op.Transfer == nil || op.Transfer.Made || !step.Transferred {
		return
	}
	made := *op.Transfer
	made.Made, made.To = true, step.NewLeader
	op.Transfer = &made
}

// step returns the agent's answer to this Operation's order. Answers with another token (foreign, late or repeated)
// are not applied (R81).
func (op Operation) step(f Facts, verb Verb) StepReport {
	for _, s := range f.Steps {
		if s.Operation == op.ID && s.Verb == verb && s.Attempt == op.Attempt {
			return s
		}
	}
	return StepReport{}
}

func (op Operation) enter(p Phase, now time.Time) Operation {
	op.Phase, op.Entered = p, op.Entered.with(p, now)
	return op
}

func (op Operation) end(p Phase, cause Cause, reason string, now time.Time) Operation {
	op = op.enter(p, now)
	op.Failure.Cause, op.Reason, op.Times.Ended = cause, reason, now
	return op
}

func (op Operation) because(reason string) Operation {
	op.Reason = reason
	return op
}
