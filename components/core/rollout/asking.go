package rollout

import "cadre.dev/core/group"

// asks reports that the step of m waits for an operator, since m leads and update_policy.leader is "ask". An
// operator's update request that names the Slot is the decision already. The step of the leader goes last all the
// same.
func (w *world) asks(m *member) bool {
	return w.spec.UpdatePolicy.Leader == group.LeaderAsk && m.leads() && m.open == nil && !m.asked(RequestUpdate)
}

// onlyLeaderAsks reports that the rollout has one outdated member left, and that its step waits for an operator.
func (w *world) onlyLeaderAsks() bool {
	out := w.tally.outdated
	return len(out) == 1 && w.asks(out[0])
}

func (w *world) holdsOfAsking(c candidate, _ evaluation) []Hold {
	if !w.asks(c.m) {
		return nil
	}
	return []Hold{hold(HoldLeaderNeedsApproval, "%s leads, and update_policy.leader is %q: say when, with `cadre instance update %s`", c.m.slot, group.LeaderAsk, c.m.slot)}
}
