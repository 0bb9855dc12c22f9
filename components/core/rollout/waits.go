package rollout

import (
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// waitsForPeople: the time of an operator's decision or approval, or of a heartbeating hook, does not count for the
// rollout. The hook's absolute cap ends the hook's wait (R88).
func (w *world) waitsForPeople() bool {
	if w.waitsForDecision() || w.waitsForOverrides() {
		return true
	}
	return slices.ContainsFunc(w.members, func(m *member) bool {
		if m.open == nil || m.open.Kind == operation.Drain || m.open.Phase != operation.Draining || m.report == nil {
			return false
		}
		return slices.ContainsFunc(m.report.Steps, func(s StepReport) bool {
			return s.Operation == m.open.ID && s.Verb == VerbDrain && (s.State == StepRunning || s.State == StepHeld)
		})
	})
}

// waitsForDecision: the remaining work waits for an operator's approval, permission or request. Or it waits until the
// platform accepts a refused call (R74), until the workload lets its members be stopped, until a window opens (R97), or
// for its turn at the limits of the cluster.
func (w *world) waitsForDecision() bool {
	return w.lacksDecision() || w.tally.waits.of(func() bool { return w.waitsByWord(HoldClusterLimit) })
}

// lacksDecision: no step of the rollout may begin automatically, by the spec or by the records of operators.
func (w *world) lacksDecision() bool {
	return w.windowClosed() || w.bakeRuns() || w.spec.UpdatePolicy.Type == group.Opportunistic || !w.mayRun(w.target) || w.tally.tooHarsh != nil || w.onlyLeaderAsks() || len(w.rec.NoValue) > 0
}

// endedByWord are the holds that only the workload's or an operator's permission ends, after any time.
var endedByWord = []string{HoldMayDisrupt, HoldBusy, HoldLeaderNeedsApproval, HoldVersionStep, HoldIrreversible, HoldInterruption, HoldProtected, HoldDrained, HoldGateClosed, HoldAfterGroup, HoldPrecondition}

// waitsByWord: each outdated Slot waits only for one of these holds or the named one, or for another Slot that does. No
// other Slot is in trouble. A leader's step follows all other steps, and a step of another failure domain follows those of
// the first. A step without room follows the creation of an extra member.
func (w *world) waitsByWord(also string) bool {
	if slices.ContainsFunc(w.tally.notAvailable, func(m *member) bool { return !m.keptByHand() && !w.awaitsCreation(m) }) {
		return false
	}
	byWord := func(h Hold) bool { return h.Predicate == also || slices.Contains(endedByWord, h.Predicate) }
	creation := slices.ContainsFunc(w.tally.outdated, w.awaitsCreation)
	first := creation
	for _, m := range w.tally.outdated {
		if !w.openStage().lets(m) || w.awaitsCreation(m) {
			continue
		}
		holds := w.holdsOf(w.rollsTo(m), evaluation{taken: &taken{}})
		last := slices.ContainsFunc(holds, func(h Hold) bool {
			return h.Predicate == HoldLeaderLast || h.Predicate == HoldDomain || creation && lacksRoom(h)
		})
		if !last && !slices.ContainsFunc(holds, byWord) {
			return false
		}
		first = first || !slices.ContainsFunc(holds, func(h Hold) bool { return !byWord(h) })
	}
	return first
}

// awaitsCreation: no CVM of m was made yet, and a gate, another group or a limit of the cluster holds its creation. An extra
// member waits as well while the updates that it is for wait.
func (w *world) awaitsCreation(m *member) bool {
	if m.open != nil || !m.missing() {
		return false
	}
	c, l := candidate{m: m, kind: operation.Create, to: m.want.revision, actor: operation.ActorScaling}, evaluation{taken: &taken{}}
	holds, _ := w.passed(slices.Concat(w.holdsOfGates(c, l), w.holdsOfSurge(c, l), w.holdsOfAfter(c, l), w.holdsOfLimits(c, l)))
	return len(holds) > 0
}

// rollsTo is the rollout's step of m.
func (w *world) rollsTo(m *member) candidate {
	return candidate{m: m, kind: w.rollKind(m), to: m.want.revision, actor: operation.ActorRollout, condition: well, refresh: w.refreshes(m)}
}

// keepProgressClock stops the clock while the rollout waits for Slots that an operator marked. The clock then
// restarts, as after a pause.
func (w *world) keepProgressClock() {
	r, waits := w.rollout, w.waitsForOverrides()
	if !waits || r.PausedAt.IsZero() || !r.State.Moves() {
		w.resume()
	}
	if waits && r.PausedAt.IsZero() {
		r.PausedAt = w.now
	}
}

// resume restarts the progress clock after a pause (R88, R93).
func (w *world) resume() {
	r := w.rollout
	all := reached(r.State) || r.State == operation.BakingState
	if all {
		// Failures on the way recovered before the rollout ended, and prove nothing now (R90).
		w.forgive()
	}
	if !r.PausedAt.IsZero() || all || ended(r.State) || r.ProgressAt.After(w.now) {
		// A leader whose clock was ahead wrote a time in the future.
		r.PausedAt, r.ProgressAt = time.Time{}, w.now
	}
	switch waits := w.waitsForDecision(); {
	case waits && r.WaitsSince.IsZero():
		r.WaitsSince = w.now
	case !waits && !r.WaitsSince.IsZero():
		r.WaitsSince, r.ProgressAt = time.Time{}, w.now
	}
}

// waitsForOverrides: all remaining work waits for an operator. The cause is an override, a pin to a Revision that may
// not run, or a down Slot that is excluded from healing. Any other Slot in a step or in trouble uses the rollout's
// time. A Slot that waits for its turn uses it too, unless the Slots kept by hand hold it.
func (w *world) waitsForOverrides() bool {
	var waiting []*member
	kept, away := false, 0
	for _, m := range w.members {
		switch {
		case m.available && !w.outdated(m):
		case w.leftDown(m), m.inScope() && (m.keptByHand() || w.pinRefused(m)):
			kept = true
			if m.unavailable() {
				away++
			}
		case !m.inScope():
		case m.open != nil || !m.available:
			return false
		case w.openStage().lets(m): // the others wait for the stage
			waiting = append(waiting, m)
		}
	}
	return kept && !slices.ContainsFunc(waiting, func(m *member) bool { return !w.heldByKept(m, away) })
}

// leftDown: m is away, and an operator's setting excludes it from updates and healing.
func (w *world) leftDown(m *member) bool {
	return !m.inScope() && w.unhealed(m) && m.unavailable()
}

// heldByKept: m's step waits for the Slots that are kept by hand. All other Slots are available and in no step. While
// kept Slots are away, a hold for room or for a quorum is theirs. A leader waits for the Slots behind it, away or not.
func (w *world) heldByKept(m *member, away int) bool {
	return slices.ContainsFunc(w.holdsOf(w.rollsTo(m), evaluation{taken: &taken{}}), func(h Hold) bool {
		return h.Predicate == HoldLeaderLast || away > 0 && lacksRoom(h)
	})
}

// lacksRoom: the Hold ends once another member serves.
func lacksRoom(h Hold) bool {
	return slices.Contains([]string{HoldMaxUnavailable, HoldVoterCap, HoldQuorum, HoldWouldLoseQuorum}, h.Predicate)
}
