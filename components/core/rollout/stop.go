package rollout

import (
	"cmp"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// A spec with `stopped = true` gets a Stop for each CVM, one after the other and the leader last, without a hand-over.
// The Stop stays open while the group is stopped. Then it starts its CVM at the Revision that it has. All rules about
// lost members and quorum concern unwanted losses, and hold no Stop.

const groupStoppedText = "the group is stopped by its spec; to start it: stopped = false"

// groupStopped: the spec wants no CVM of the group to run. The deletion of the group needs no stop before.
func (w *world) groupStopped() bool { return w.spec.Stopped && !w.ending() }

// staysStopped: a Stop keeps m's CVM stopped.
func (m *member) staysStopped() bool { return m.open != nil && m.open.StaysStopped() }

// toStop: the group is to be stopped, and m's CVM may run.
func (w *world) toStop(m *member) bool {
	return w.groupStopped() && m.seen.Instance != nil && !m.staysStopped()
}

// stopsOrStarts: the group is stopped, or a Stop has not started its CVM again.
func (w *world) stopsOrStarts() bool {
	return w.groupStopped() || slices.ContainsFunc(w.everyone, func(m *member) bool { return m.open != nil && m.open.Kind == operation.Stop })
}

// stop returns the Stop of m; ok is false where m needs none, or another step of m is not decided yet.
func (w *world) stop(m *member) (c candidate, ok bool) {
	free := m.open == nil || m.rests() || w.retargetable(m)
	if !free || !w.toStop(m) {
		return c, false
	}
	c = candidate{m: m, kind: operation.Stop, to: w.bootsNext(m), actor: operation.ActorScaling, condition: m.condition}
	c.class = w.class(m, c)
	if c.class != ClassLeader {
		c.class = ClassFollower
	}
	return c, true
}

// bootsNext is the Revision that the next Boot of m's CVM shows.
func (w *world) bootsNext(m *member) string {
	switch op := m.open; {
	case op != nil && op.Decided() && op.To != "" && !op.Way.BootStays():
		return op.To
	case w.givenSince(m):
		return cmp.Or(m.pendingBoot.To, m.record.Assigned, m.runs())
	}
	return cmp.Or(m.runs(), m.want.revision)
}

// whileStopped returns the step of m that waits for the start of its group.
func (w *world) whileStopped(m *member, c candidate) candidate {
	switch {
	case !w.groupStopped():
		return c
	case m.asked(RequestReplace):
		c.kind, c.actor = operation.Replace, operation.ActorOperator
	case m.asked(RequestRestart):
		c.kind, c.actor, c.to, c.service = operation.Restart, operation.ActorOperator, m.runs(), m.request.Service
	case w.outdated(m):
		c.kind = operation.Update
		if c.marked = m.asked(RequestUpdate); c.marked {
			c.actor = operation.ActorOperator
		}
	default:
		return c
	}
	c.condition = m.condition
	c.class = w.class(m, c)
	return c
}

// holdsOfStopped holds every step except a Stop while the group is stopped.
func (w *world) holdsOfStopped(candidate, evaluation) []Hold {
	if !w.groupStopped() {
		return nil
	}
	return []Hold{hold(HoldGroupStopped, "%s", groupStoppedText)}
}

// holdsOfStop lets one member stop at a time, and the leader last, since each hand-over would only move the leader to
// a member that stops too. A protection and the workload's own work hold a Stop like any other step.
func (w *world) holdsOfStop(c candidate, l evaluation) []Hold {
	holds := append(w.holdsOfProtection(c, l), w.holdsOfMember(c, l)...)
	if len(l.taken.order) > 0 {
		return append(holds, hold(HoldStopOrder, "waits for the step of %s", l.taken.order[0].slot))
	}
	for _, m := range w.everyone {
		switch {
		case m == c.m:
		case m.open != nil && !m.rests() && !w.retargetable(m):
			return append(holds, hold(HoldStopOrder, "waits for the step of %s: %s", m.slot, m.whyNot()))
		case c.class == ClassLeader && w.toStop(m):
			return append(holds, hold(HoldStopOrder, "%s leads and stops last; %s runs", c.m.slot, m.slot))
		}
	}
	return holds
}

// unstopped returns why op does not keep its CVM stopped any more; "" while it does. A freeze or a pause keeps a
// stopped CVM as it is.
func (w *world) unstopped(m *member, op operation.Operation) string {
	switch {
	case w.ending():
		return "the group is being deleted"
	case w.groupStopped(), op.StaysStopped() && (w.stopped(op.Kind, op.Actor) || w.startsAfter(m) != nil):
		return ""
	}
	return "the group is to run"
}

// startsAfter returns a stopped member that starts before m, or nil. Voters start together, since each needs the
// others. A workload that replicates without votes starts with the member that stopped last, which has all data.
// Other members follow the management policy.
func (w *world) startsAfter(m *member) (first *member) {
	if w.view.voting || !w.view.roles && w.spec.ManagementPolicy == group.Parallel {
		return nil
	}
	for _, other := range w.everyone {
		if other == m || other.open == nil || other.open.Kind != operation.Stop {
			continue
		}
		last := w.view.roles && w.recorded(*m.open, *other.open) < 0
		if last || !w.view.roles && other.ordinal < m.ordinal {
			return other
		}
	}
	return nil
}
