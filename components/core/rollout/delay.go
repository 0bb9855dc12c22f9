package rollout

import (
	"time"

	"cadre.dev/core/operation"
)

// findDelay is when the pause after the rollout's last step is over, and the Slot of that
// step; zero where the spec wants none, or none was made. It follows from the record of the
// Operation, so that a new leader waits for the same moment (R96).
func (w *world) findDelay() (slot string, until time.Time) {
	delay := w.spec.UpdatePolicy.StepDelay.D()
	if delay == 0 {
		return "", time.Time{}
	}
	for _, m := range w.members {
		for i := range m.past {
			op := &m.past[i]
			if op.Kind != operation.Update || op.Phase != operation.Done || op.Actor == operation.ActorOperator {
				continue
			}
			ended := op.Times.Ended
			if ended.After(w.now) {
				ended = w.now // by the clock of a leader that was ahead
			}
			if at := ended.Add(delay); at.After(until) {
				slot, until = m.slot, at
			}
		}
	}
	return slot, until
}

// holdsOfDelay: a step that is under way elsewhere, or leads to another Revision by now, is
// not a new one.
func (w *world) holdsOfDelay(c candidate, _ look) []Hold {
	slot, until := w.tally.delayedBy, w.tally.delayedUntil
	if c.m.open != nil || !w.now.Before(until) {
		return nil
	}
	return []Hold{holdUntil(until, HoldStepDelay, "the step of %s ended a moment ago; step_delay ends at %s", slot, until.UTC().Format(time.TimeOnly))}
}
