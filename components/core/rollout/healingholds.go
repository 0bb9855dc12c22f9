package rollout

import (
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// holdsOfHealing bounds automatic repairs: the number of attempts, the number of simultaneous repairs, and their
// rate where the members more likely share one cause (R117-R120).
func (w *world) holdsOfHealing(c candidate, l evaluation) []Hold {
	var holds []Hold
	m := c.m
	if w.spec.AutoHealing == nil {
		return nil // an Operation of healing that has begun is cancelled
	}
	if l.op == nil {
		holds = append(holds, w.holdsOfAttempts(c)...)
		// A CVM that is down starts in parallel with other repairs: the start takes nothing away.
		starts := c.kind == operation.Restart && c.condition == notBooted
		if !starts && (c.service == "" || !w.processDown(m)) {
			holds = append(holds, w.holdsOfRate(c, l)...)
		}
		limit := max(group.MaxUnavailable(w.spec), 1)
		waits, _ := w.waitedFor(c, w.tally.open)
		if n := w.tally.healing + l.taken.healing; !starts && n >= limit && waits+len(l.taken.order) > 0 {
			holds = append(holds, hold(HoldHealInProgress, "%d at a time are healed, and so many are", limit))
		}
	}
	if why := w.costly(m); why != "" && c.kind == operation.Replace {
		holds = append(holds, hold(HoldHealStorm, "%s; heal %s yourself once that is understood: %s", why, m.slot, byHand(c)))
	}
	return holds
}

// updateHeld reports that m's update waits for an operator's decision, for any length of time. Until then the
// planner heals m at the Revision that it runs (R92, R116).
func (w *world) updateHeld(m *member) bool {
	if m.observed == "" || w.givenSince(m) {
		return false
	}
	state := w.rec.Rollout
	failed := state != nil && state.To == w.asked && state.State == operation.FailedState
	return failed || w.updateRefused(m) || m.seen.Protection != nil || w.pausedFor(operation.Update, operation.ActorRollout) || !w.gate(m.want.revision).Allowed || w.exceeds(m) || w.heldByRule(m)
}

// heldByRule: a closed gate, a rule of version upgrades or a stage holds m's update, or the next window may open days
// later. A member that is known to be down is updated outside of a window. Or the replacement of m waits for an extra
// member at the target, whose own update may wait for m.
func (w *world) heldByRule(m *member) bool {
	c, l := w.rollsTo(m), evaluation{taken: &taken{}}
	if w.renews(m) && !w.tally.proven || w.windowClosed() && (m.condition == well || m.condition == lost) {
		return true
	}
	return !c.refresh && len(w.holdsOfGates(c, l))+len(w.holdsOfVersion(c, l))+len(w.holdsOfIrreversible(c, l)) > 0 || len(w.holdsOfStage(c, l)) > 0
}
