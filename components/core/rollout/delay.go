package rollout

import (
	"time"

	"cadre.dev/core/operation"
)

// findDelay returns the end of the pause after the rollout's last step, and the Slot of that step. Both are zero
// where the spec has no step_delay, or no step was made. The result follows from the Operation's record, so that a
// new leader waits for the same time (R96).
func (w *world) findDelay() (slot string, until time.Time) {
	delay := w.spec.UpdatePolicy.StepDelay.D()
	if delay == 0 {
		return "", time.Time{}
	}
	for _, m := range w.members {
		for i := range m.past {
			op := &m.past[i]
			if !op.Kind.Rolls(op.Actor) || op.Phase != operation.Done || op.Actor == operation.ActorOperator {
				continue
			}
			ended := op.Times.Ended
			if ended.After(w.now) {
				ended = w.now // the clock of an earlier leader was ahead
			}
			if at := ended.Add(delay); at.After(until) {
				slot, until = m.slot, at
			}
		}
	}
	return slot, until
}

// holdsOfDelay: a step that is under way, and a step that only got another target Revision, are not new steps.
func (w *world) holdsOfDelay(c candidate, _ evaluation) []Hold {
	slot, until := w.tally.delayedBy, w.tally.delayedUntil
	if c.m.open != nil || !w.now.Before(until) {
		return nil
	}
	return []Hold{holdUntil(until, HoldStepDelay, "the step of %s ended a moment ago; step_delay ends at %s", slot, until.UTC().Format(time.TimeOnly))}
}
