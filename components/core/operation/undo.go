package operation

import "time"

// A step that stopped its CVM may find that the change cannot be made. The CVM then starts again with its old content,
// and the step fails.

// stoppedInVain: the step stopped its CVM, and no change of the content is certain.
func (op Operation) stoppedInVain() bool {
	return op.Kind == Update && op.Call.Has(PartStop) && !op.Call.changes()
}

// undo records why the change is not made. The step ends once its CVM starts.
func (op Operation) undo(cause Cause, reason string, f Facts, now time.Time) Operation {
	op.Failure.Cause, op.Failure.Signature = cause, reason
	op.Times.HealthyBy = now.Add(f.Limits.Healthy)
	return op.enter(Drained, now).because(reason + "; the CVM is started again as it was")
}

// Undoes reports that the open step gave its change up, and only starts its CVM again.
func (op Operation) Undoes() bool {
	return op.stoppedInVain() && op.Failure.Cause != "" && !op.Phase.Ended()
}

// startAgain starts the stopped CVM, unless its host did so. After a whole healthy deadline the step ends without it.
func (op Operation) startAgain(f Facts, now time.Time) (Operation, []Effect) {
	reason, ok := op.mayAct(f)
	switch up := ok && !op.isStopped(f); {
	case up, !now.Before(op.Times.HealthyBy):
		return op.end(Failed, op.Failure.Cause, op.Failure.Signature, now), op.cancelDrain()
	case !ok:
		return op.because(reason), nil
	}
	return op.call(f, now)
}
