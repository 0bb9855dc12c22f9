package rollout

import (
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// actionOf is the update action of c; empty for a step without one.
func (w *world) actionOf(c candidate) group.UpdateAction {
	switch c.kind {
	case operation.Update:
		needed, _ := w.takes(c.m)
		switch {
		case needed == group.ActionReplace: // a step in place, such as an extra member's
			needed = group.ActionRestart
		case c.marked && !c.refresh:
			needed = group.Harshest(needed, group.ActionRestart) // a silent agent proves no Revision
		}
		return needed
	case operation.Restart:
		return group.ActionRestart
	case operation.Replace:
		return group.ActionReplace
	case operation.Create, operation.Delete, operation.Drain, operation.Stop:
	}
	return ""
}

// holdsOfHarshness is R132: a rollout is never applied partially. One Slot whose action is not allowed therefore
// holds the other Slots too. A Slot that an operator's request names is updated.
func (w *world) holdsOfHarshness(c candidate, _ evaluation) []Hold {
	m := c.m
	if c.marked {
		return nil
	}
	also := ""
	if !w.exceeds(m) {
		if m = w.tally.tooHarsh; m == nil {
			return nil
		}
		also = ", and nothing of a rollout is done by half"
	}
	needed, list := w.takes(m)
	allowed := group.MostDisruptive(w.spec)
	return []Hold{hold(HoldActionNotAllowed, "the update of %s takes %s%s and update_policy.most_disruptive_allowed_action is %s%s; allow %s, put back what changed, or update the slot by its name: cadre instance update %s",
		m.slot, needed, because(group.Exceeding(list, allowed)), allowed, also, needed, m.slot)}
}

// movesOf returns the distinct Revision pairs among actions, in their order, where both Revisions are recorded.
func (w *world) movesOf(actions []Action) []Move {
	var out []Move
	for _, a := range actions {
		known := a.From != a.To && slices.ContainsFunc(out, func(m Move) bool { return m.From == a.From && m.To == a.To })
		if a.Kind != operation.Update || known {
			continue
		}
		list, ok := w.changes(a.From, a.To)
		if m := w.find(a.Slot); m != nil && a.From == a.To {
			list = append(slices.Clip(list), w.unapplied(m)...)
		}
		if ok && len(list) > 0 {
			out = append(out, Move{From: a.From, To: a.To, Changes: list})
		}
	}
	return out
}
