package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// tolerated returns the Slots whose step failed, while they are no more than max_failed. The rollout goes on with the
// other Slots, and these keep their part of the budget (R100). One failure more, and none is tolerated. An undecided
// call is no failure: it stops all other calls until it is decided. A set of voters tolerates none. A stage, and a group
// without one, has to prove the Revision with one Slot at least. An extra member is updated first to prove the Revision
// and to make room for the others, so that its failure is not tolerated.
func (w *world) tolerated() []*member {
	limit := w.spec.UpdatePolicy.MaxFailed
	if limit == 0 || group.HasVoters(w.spec) || w.view.voting {
		return nil
	}
	return w.tally.tolerated.of(func() []*member {
		var failed []*member
		for _, m := range w.members {
			if v := w.evidenceOf(m); v != nil && v.Cause != operation.CauseUndecided {
				failed = append(failed, m)
			}
		}
		s := w.openStage()
		proves := func(m *member) bool {
			return !m.extra && m.inScope() && m.want.revision == w.target && s.lets(m) && !slices.Contains(failed, m)
		}
		if len(failed) > limit || slices.ContainsFunc(failed, func(m *member) bool { return m.extra }) || !slices.ContainsFunc(w.members, proves) {
			return nil
		}
		return failed
	})
}

// tolerates reports that the step of m failed, and that the rollout goes on without m.
func (w *world) tolerates(m *member) bool { return slices.Contains(w.tolerated(), m) }

// waitable returns the members of list that others may wait for: nothing happens any more to a tolerated failure.
func (w *world) waitable(list []*member) []*member {
	if len(w.tolerated()) == 0 {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), w.tolerates)
}

func (w *world) evidenceOf(m *member) *operation.Verdict {
	if op := m.open; op != nil {
		if op.Actor != operation.ActorOperator && op.Actor != operation.ActorHealing && w.undecided(op) && w.now.Sub(op.Call.IssuedAt) >= w.t.UnknownDeadline {
			return &operation.Verdict{Cause: operation.CauseUndecided, Operation: op.ID, Phase: op.Phase,
				Reason: "platform_result_unknown: the call is undecided since " + op.Call.IssuedAt.UTC().Format(time.RFC3339)}
		}
		return nil
	}
	// A member that serves at the target may still be without its size, and its step is not tried again.
	if m.available && m.observed == w.target && (!w.outdated(m) || !w.triedAtTarget(m, false)) || !m.inScope() {
		return nil
	}
	last := m.last()
	if last != nil && last.Phase == operation.Failed && last.Failure.Cause != operation.CauseRefused && last.To == w.target {
		return &operation.Verdict{Cause: last.Failure.Cause, Operation: last.ID, Phase: failedIn(last), Reason: cmp.Or(last.Reason, "its step failed")}
	}
	if n, last := m.aborts(); n >= maxAborts {
		return &operation.Verdict{Cause: last.Failure.Cause, Operation: last.ID, Phase: failedIn(last), Reason: fmt.Sprintf("called off %d times: %s", n, last.Reason)}
	}
	if i := m.seen.Instance; i != nil && i.BootError != "" && !i.InProgress && !w.outdated(m) && m.record.WasAvailableAt != w.target {
		return &operation.Verdict{Cause: operation.CauseBootError, Reason: "never available at the target: " + i.BootError}
	}
	return nil
}

// failedIn returns the last phase of an ended Operation before its end.
func failedIn(op *operation.Operation) operation.Phase {
	for _, p := range []operation.Phase{operation.Settling, operation.Joining, operation.Booting, operation.Acting, operation.Drained} {
		if !op.Entered[p].IsZero() {
			return p
		}
	}
	return operation.Draining
}
