package rollout

import (
	"cmp"
	"slices"
	"time"

	"cadre.dev/core/operation"
)

// The states of a rollout, and the changes of its record from one state to another.

// madeAnew: the only records of the group are rollouts of a deleted group of the same name. The newest of these
// rollouts is over: it ended, or the end of its group superseded it.
func (w *world) madeAnew() bool {
	r := w.rec.Rollout
	return w.rec.Status.Target == "" && r != nil && ended(r.State)
}

// goesOn: the newest rollout has the spec's target. A group that was made again begins its own rollout, with a new
// clock and without earlier verdicts or evidence.
func (w *world) goesOn(r *operation.Rollout) bool { return r.To == w.asked && !w.madeAnew() }

func ended(s operation.RolloutState) bool {
	switch s {
	case operation.Complete, operation.PartitionReached, operation.FailedState, operation.SupersededState, operation.RolledBack:
		return true
	case operation.Running, operation.BakingState, operation.PausedState, operation.RollingBack:
	}
	return false
}

// reached: the rollout brought all Slots in scope to where it moved them.
func reached(s operation.RolloutState) bool {
	return s == operation.Complete || s == operation.PartitionReached || s == operation.RolledBack
}

// stageNumber is the number of the open stage, from 1; 0: none is open.
func (w *world) stageNumber() int {
	passed := 0
	if r := cmp.Or(w.rollout, w.rec.Rollout); r != nil && w.goesOn(r) {
		passed = r.StagesPassed
	}
	if !w.staged() || passed >= len(w.spec.UpdatePolicy.Stages) {
		return 0
	}
	return passed + 1
}

// staged: the rollout leaves a proven Revision for another one. Stages and bakes do not concern the first Revision of a
// group, and no way back to the stable one.
func (w *world) staged() bool { return w.stable != "" && w.stable != w.target }

func (w *world) setState(s operation.RolloutState, reason string) {
	r := w.rollout
	if r.State != s {
		if ended(r.State) && !ended(s) {
			r.ProgressAt = w.now // opened again: its clock restarts (R88)
		}
		r.EndedAt = time.Time{}
		if ended(s) {
			r.EndedAt, r.WaitsSince = w.now, time.Time{}
		}
		r.BakeSince = time.Time{} // a bake belongs to one state
	}
	if s != operation.FailedState {
		r.Verdict = nil
	}
	if s == operation.PausedState && r.PausedAt.IsZero() {
		r.PausedAt = w.now
	}
	r.State, r.Reason = s, reason
}

// complete ends the rollout: its target is stable from now on.
func (w *world) complete(why string) {
	w.setState(operation.Complete, why)
	w.stable = w.target
	w.failedRevs = slices.DeleteFunc(w.failedRevs, func(rev string) bool { return rev == w.target })
}

// goOn lets a failed rollout run again. The Operations up to a number are no evidence any more, and the rollout's
// clock restarts.
func goOn(r *operation.Rollout, why string, forgiven int, now time.Time) {
	r.State, r.Reason, r.Verdict = r.Onward(), why, nil
	r.Forgiven, r.ProgressAt, r.EndedAt, r.Promoted = forgiven, now, time.Time{}, 0
}

// forgivable returns the number up to which Operations are forgiven: all, except an open Operation, whose end is not
// known. If a later Operation failed, the open Operation is forgiven too.
func (w *world) forgivable() int {
	first := w.rollout.Steps
	for _, m := range w.tally.open {
		if m.open.Rollout == w.rollout.ID {
			first = min(first, m.open.Order-1)
		}
	}
	for _, m := range w.everyone {
		if slices.ContainsFunc(m.past, func(op operation.Operation) bool { return op.Order > first && cameToNothing(&op) }) {
			return w.rollout.Steps
		}
	}
	return max(first, w.rollout.Forgiven)
}

// forgive drops the Operations that can be forgiven now from the evidence.
func (w *world) forgive() {
	w.rollout.Forgiven = w.forgivable()
	for _, m := range w.everyone {
		m.past = slices.DeleteFunc(m.past, func(op operation.Operation) bool { return op.Order <= w.rollout.Forgiven })
	}
	w.retally()
}

func verdictText(v *operation.Verdict) string {
	if v.Slot == "" {
		return v.Reason
	}
	return v.Slot + ": " + v.Reason
}
