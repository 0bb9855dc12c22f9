package rollout

import (
	"fmt"
	"slices"

	"cadre.dev/core/operation"
)

// holdsOfHearing: when most of a group is silent, the members may be fine and the leader cut off. The planner then
// begins no voluntary step and repairs no member that merely seems lost (R120). An operator who names a silent Slot
// has seen it.
func (w *world) holdsOfHearing(c candidate, _ evaluation) []Hold {
	if c.marked && c.condition == lost {
		return nil
	}
	// In a group of one or two, the reports of the whole fleet show whether the leader is cut off.
	if f := w.obs.Fleet; c.actor == operation.ActorHealing && f.Expected > 2 && !f.manySilent(c.m.record.SilenceFrom) {
		return nil
	}
	if why := w.unheard(); why != "" {
		return []Hold{hold(HoldInsufficientReports, "%s", why)}
	}
	return nil
}

// unheard returns why too few agents report to judge the group; empty while enough do.
func (w *world) unheard() string {
	t := &w.tally
	if t.expected == 0 || t.heard >= t.expected/2+1 {
		return ""
	}
	return fmt.Sprintf("%d of %d agents are heard, %d needed to change anything", t.heard, t.expected, t.expected/2+1)
}

// holdsOfNamedLeader: the step would stop the leader without a drain, while other members follow it (I3).
func (w *world) holdsOfNamedLeader(c candidate, _ evaluation) []Hold {
	if !c.m.named {
		return nil
	}
	word := "is silent"
	if c.m.report != nil {
		word = "gives its driver no answer"
	}
	return []Hold{hold(HoldLeaderByPeers,
		"%s %s and those who follow name it as their leader; reach its agent, or move leadership away by hand", c.m.slot, word)}
}

// holdsOfNamedFollower: the agent of c's member is silent, and the leader reports that the member follows it. The
// member needs no repair.
func (w *world) holdsOfNamedFollower(c candidate, _ evaluation) []Hold {
	if c.m.report != nil || c.m.certainlyDown() || !w.follows(c.m) {
		return nil
	}
	return []Hold{hold(HoldFollowerByLeader,
		"%s is silent and %s, which leads, says that it follows; reach its agent, or restart its CVM by name: cadre instance restart %s", c.m.slot, w.view.leader, c.m.slot)}
}

// follows reports that the member that leads sees m follow it now.
func (w *world) follows(m *member) bool {
	lead := w.find(w.view.leader)
	return lead != nil && lead != m && lead.report != nil && slices.Contains(lead.report.Followers, m.slot)
}
