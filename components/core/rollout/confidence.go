package rollout

import (
	"fmt"
	"slices"

	"cadre.dev/core/operation"
)

// holdsOfHearing: a group most of which is silent may be fine, and the leader deaf.
// Nothing voluntary happens to it, and what seems lost is not repaired by guesses (R120).
// An operator who names a silent Slot has looked.
func (w *world) holdsOfHearing(c candidate, _ look) []Hold {
	if c.marked && c.condition == lost {
		return nil
	}
	// Of a group of one or two the fleet tells whether the leader is deaf.
	if f := w.obs.Fleet; c.actor == operation.ActorHealing && f.Expected > 2 && !f.manySilent(c.m.record.SilenceFrom) {
		return nil
	}
	if why := w.unheard(); why != "" {
		return []Hold{hold(HoldAgentsUnheard, "%s", why)}
	}
	return nil
}

// unheard is why the reports do not tell enough about the group; empty while they do.
func (w *world) unheard() string {
	t := w.tally
	if t.expected == 0 || t.heard >= t.expected/2+1 {
		return ""
	}
	return fmt.Sprintf("%d of %d agents are heard, %d needed to change anything", t.heard, t.expected, t.expected/2+1)
}

// holdsOfNamedLeader: it would be stopped undrained, under those who follow it (I3).
func (w *world) holdsOfNamedLeader(c candidate, _ look) []Hold {
	if !c.m.named {
		return nil
	}
	word := "is silent"
	if c.m.report != nil {
		word = "gives its driver no answer"
	}
	return []Hold{hold(HoldNamedLeader,
		"%s %s and those who follow name it as their leader; reach its agent, or move leadership away by hand", c.m.slot, word)}
}

// holdsOfNamedFollower: its agent is silent, and its workload is well by the word of the member
// that leads: there is nothing to heal.
func (w *world) holdsOfNamedFollower(c candidate, _ look) []Hold {
	if c.m.report != nil || c.m.certainlyDown() || !w.follows(c.m) {
		return nil
	}
	return []Hold{hold(HoldNamedFollower,
		"%s is silent and %s, which leads, says that it follows; reach its agent, or restart its CVM by name: cadre instance restart %s", c.m.slot, w.view.leader, c.m.slot)}
}

// follows: the member that leads sees m following it now.
func (w *world) follows(m *member) bool {
	lead := w.find(w.view.leader)
	return lead != nil && lead != m && lead.report != nil && slices.Contains(lead.report.Followers, m.slot)
}
