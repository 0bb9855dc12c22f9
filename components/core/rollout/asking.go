package rollout

import "cadre.dev/core/group"

// asks: the step of m waits for a person, since m leads. A person who asked for the update of the Slot by its
// name has decided already; the step goes last all the same.
func (w *world) asks(m *member) bool {
	return w.spec.UpdatePolicy.Leader == group.LeaderAsk && m.leads() && m.open == nil && !m.asked(RequestUpdate)
}

// onlyLeaderAsks: nothing else is left of the rollout than what a person is asked about.
func (w *world) onlyLeaderAsks() bool {
	out := w.tally.outdated
	return len(out) == 1 && w.asks(out[0])
}

func (w *world) holdsOfAsking(c candidate, _ look) []Hold {
	if !w.asks(c.m) {
		return nil
	}
	return []Hold{hold(HoldLeaderAsks, "%s leads, and update_policy.leader is %q: say when, with `cadre instance update %s`", c.m.slot, group.LeaderAsk, c.m.slot)}
}
