package agent

import (
	"net/netip"
	"slices"

	"cadre.dev/core/group"
)

// joins returns the Slots of the set that this member joins, nil if it joins none. waits means that
// the set does not list this member yet, so its workload must not start.
func joins(config *group.AgentConfig) (set []string, waits bool) {
	m := config.Membership
	if m == nil || !m.Joins {
		return nil, false
	}
	return slices.Clone(m.Set), m.Waits()
}

// slotAt is the inverse of vipOf.
func (a *Agent) slotAt(vip netip.Addr) (string, bool) {
	if current, _ := a.admitted.Get(); current != nil {
		if own, err := parseVIP(current.Grant.GetVip()); err == nil && own == vip {
			return current.ID.Slot, true
		}
	}
	list, _ := a.peers.Get()
	for _, p := range list {
		if p.VIP == vip {
			return p.ID.Slot, true
		}
	}
	return "", false
}

// members are the group's Slots by the configuration in force.
func (a *Agent) members() []string {
	if config, _ := a.config.Get(); config != nil {
		return config.Members
	}
	return nil
}
