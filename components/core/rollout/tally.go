package rollout

import (
	"slices"
	"time"

	"cadre.dev/core/operation"
)

// tally is what the rules ask about the group as a whole, counted once a pass: a rule
// that counted for itself would make the pass quadratic.
type tally struct {
	// unavailable are the members of U, open those in a step, in order (R20). unsure counts those of U that may
	// serve all the same.
	unavailable []*member
	unsure      int
	open        []*member
	// openVoters are those of open that count among the voters and are away.
	openVoters []*member
	// undecided have a call whose effect nobody knows (R66).
	undecided []*member
	// failedBack had a step that failed and are not available again (R40).
	failedBack []*member
	// notAvailable are the desired members that are not, in order.
	notAvailable []*member
	// extras are the extra members that are available.
	extras []*member
	// delayedBy is the Slot whose step the pause before the next one follows, delayedUntil its end.
	delayedBy    string
	delayedUntil time.Time
	// creating have an open Create, steps another open Operation, replacing a Replace.
	creating, steps, replacing []*member
	// healing counts the open steps that heal.
	healing int
	// proven: one Slot is available at the target.
	proven bool
	// heard of the agents expected: those whose Boot is admitted and whose CVM may run.
	heard, expected int
	// tooHarsh are those whose update takes more than the spec allows (R132).
	tooHarsh []*member
	// outdated wait for their update, outdatedVoters are those of them that count.
	outdated, outdatedVoters []*member
}

// retally counts again what rests on the Operations of the rollout.
func (w *world) retally() {
	w.tally = tally{proven: w.tally.proven}
	w.found.rungs, w.found.waits, w.found.bucket = nil, once[bool]{}, once[bucket]{}
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
			// What is taken by a Slot that is in a step, or an operator's, is seen after it.
			if m.open == nil && !m.drained() && w.exceeds(m) {
				t.tooHarsh = append(t.tooHarsh, m)
			}
			if w.voter(m) {
				t.outdatedVoters = append(t.outdatedVoters, m)
			}
		}
	}
	for _, m := range w.everyone {
		if m.open != nil {
			t.open = append(t.open, m)
			// One that was told to leave its set is healed no more: until its CVM is gone it waits for the
			// platform or for who tells of the set, however long that takes.
			left := m.open.Set.Leaves && w.inSet(m) != operation.SetListed
			if m.open.Actor == operation.ActorHealing && (!left || !m.open.Leaving()) {
				t.healing++
			}
			if m.open.Kind != operation.Create && m.open.Kind != operation.Drain {
				t.steps = append(t.steps, m)
			}
			if m.open.Kind == operation.Replace {
				t.replacing = append(t.replacing, m)
			}
			// Nor does a step wait for that, or for one that an operator took out of service, maybe for days.
			if w.voter(m) && !m.rests() && !left {
				t.openVoters = append(t.openVoters, m)
			}
		}
		if w.undecided(m.open) {
			t.undecided = append(t.undecided, m)
		}
		// One that is heard in its step counts as well, or the step that began safely would
		// find the group too silent to go on.
		if m.expected() || m.open != nil && m.report != nil {
			t.expected++
			if m.report != nil {
				t.heard++
			}
		}
	}
}

// noteBetween finds the members that serve between two parts of their change, and whose next part may not be made as
// things are. The next call is judged when it comes, and until then those that are repaired do not wait for it.
func (w *world) noteBetween() {
	for _, m := range w.tally.steps {
		op := m.open
		waits := op.Phase == operation.Drained || op.Phase == operation.Acting && op.Call.InVain()
		m.between = op.Kind == operation.Update && len(op.Call.Applied) > 0 && waits && w.serves(m) && w.unsafe(m, *op) != ""
		if m.unsure = m.between && !m.extra && !m.condemned; m.unsure {
			w.tally.unsure++
		}
	}
	w.tally.openVoters = slices.DeleteFunc(w.tally.openVoters, func(m *member) bool { return m.between })
}

// otherThan is the first of members that is not m, or nil.
func otherThan(m *member, members []*member) *member {
	for _, other := range members {
		if other != m {
			return other
		}
	}
	return nil
}
