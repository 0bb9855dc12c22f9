package rollout

import (
	"cmp"

	"cadre.dev/core/group"
	"cadre.dev/core/placement"
)

// domainOf is m's failure domain: that of the placement, or the node.
func (w *world) domainOf(m *member) string {
	n, _ := placement.Find(w.obs.Nodes, w.nodeOf(m))
	return cmp.Or(placement.Domain(w.spec.Placement.Spread, n), n.ID)
}

// keepsDomain: the domain of m is not finished. An update of m is open, or the rollout may begin it. Members that an
// operator keeps as they are, and members out of service, keep no domain open: the rollout might wait for them for any
// time. The leader keeps none open either, because its update waits for all other members.
func (w *world) keepsDomain(m *member) bool {
	if m.open != nil {
		return m.open.Kind.Rolls(m.open.Actor) && !m.open.Way.Refreshes()
	}
	return m.inService() && w.outdated(m) && !w.refreshes(m) && !m.leads() && !m.named && !m.keptByHand() && !w.exceeds(m) && !w.triedAtTarget(m, false)
}

// domainsTurn finds the domain whose turn it is. A domain with updated members or an open update is finished first,
// and the leader's domain begins last.
func (w *world) domainsTurn() turn {
	return w.tally.turn.of(func() (first turn) {
		begun, led := map[string]bool{}, map[string]bool{}
		for _, m := range w.members {
			d := w.domainOf(m)
			led[d] = led[d] || m.leads() || m.named
			open := m.open != nil && w.keepsDomain(m)
			begun[d] = begun[d] || open || m.inScope() && m.observed != "" && !w.outdated(m)
		}
		rank := func(d string) int { return 2*btoi(!begun[d]) + btoi(led[d]) }
		for _, m := range w.members {
			if !w.keepsDomain(m) {
				continue
			}
			d := w.domainOf(m)
			if first.by == nil || cmp.Or(cmp.Compare(rank(d), rank(first.domain)), cmp.Compare(d, first.domain)) < 0 {
				first = turn{d, m}
			}
		}
		return first
	})
}

// holdsOfDomain: the rollout finishes one failure domain before it takes a member of another one. A member that is out
// of service is not held, because its update takes no member away.
func (w *world) holdsOfDomain(c candidate, _ evaluation) []Hold {
	if w.spec.UpdatePolicy.Order != group.OrderByDomain || !c.m.inService() || c.m.leads() || c.m.named {
		return nil
	}
	now := w.domainsTurn()
	if now.by == nil || now.domain == w.domainOf(c.m) {
		return nil
	}
	n, _ := placement.Find(w.obs.Nodes, now.domain)
	return []Hold{hold(HoldDomain, "update_policy.order is %s: waits until %s is finished, where %s is next or in its step", group.OrderByDomain, cmp.Or(n.Title(), "the members without a known node"), now.by.slot)}
}
