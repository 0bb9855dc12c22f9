package rollout

import (
	"cmp"

	"cadre.dev/core/operation"
)

// retally repeats the counts that depend on the rollout's Operations.
func (w *world) retally() {
	w.tally = tally{proven: w.tally.proven}
	for _, m := range w.everyone {
		m.heals = once[healing]{}
	}
	w.takeTally()
}

func (w *world) takeTally() {
	t := &w.tally
	t.delayedBy, t.delayedUntil = w.findDelay()
	for _, m := range w.members {
		if m.extra && m.available {
			t.extras = append(t.extras, m)
		}
		m.unsure = !m.extra && m.open == nil && m.unavailable() && m.condition.mayServe()
		t.unsure += btoi(m.unsure)
		if !m.extra && m.unavailable() {
			t.unavailable = append(t.unavailable, m)
		}
		if !m.extra && !m.available {
			t.notAvailable = append(t.notAvailable, m)
		}
		if last := m.last(); last != nil && last.Phase == operation.Failed && m.open == nil && !m.available {
			t.failedBack = append(t.failedBack, m)
		}
		if m.open != nil && m.open.Kind == operation.Create {
			t.creating = append(t.creating, m)
		}
		if w.outdated(m) {
			t.outdated = append(t.outdated, m)
			// The disruption by a Slot in a step, or by an operator's drain, is judged after it.
			if m.open == nil && !m.drained() && w.exceeds(m) {
				t.tooHarsh = cmp.Or(t.tooHarsh, m)
			}
			if w.voter(m) {
				t.outdatedVoters = append(t.outdatedVoters, m)
			}
		}
	}
	for _, m := range w.everyone {
		if m.open != nil {
			t.open = append(t.open, m)
			// A member that was ordered to leave its set is no longer healed. Until its CVM is gone, it waits for the
			// platform or for a report about the set, for any time.
			left := m.open.Set.Leaves && w.inSet(m) != operation.SetListed
			if m.open.Actor == operation.ActorHealing && (!left || !m.open.Leaving()) {
				t.healing++
			}
			if m.open.Kind != operation.Create && m.open.Kind != operation.Drain {
				t.steps = append(t.steps, m)
			}
			if m.open.Kind == operation.Delete && m.terminating {
				t.removing = cmp.Or(t.removing, m)
			}
			if m.open.Kind == operation.Replace {
				t.replacing = append(t.replacing, m)
			}
			// Steps wait neither for that member, nor for a member that an operator drained, maybe for days.
			if w.voter(m) && !m.rests() && !left {
				t.openVoters = append(t.openVoters, m)
			}
		}
		if w.undecided(m.open) && w.silentNode(m) == "" {
			t.undecided = append(t.undecided, m)
		}
		// A member that reports during its step counts too. Otherwise a safely begun step would find too few reports to go
		// on.
		if m.expected() || m.open != nil && m.report != nil {
			t.expected++
			if m.report != nil {
				t.heard++
			}
		}
	}
}
