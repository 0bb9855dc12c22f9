package check

import (
	"strings"

	"cadre.dev/core/operation"
	"cadre.dev/core/queue"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// limits is R98: no piece of limited work begins beyond the limits of the cluster that a leader may know. A lower limit ends no work. The
// status of a Slot that has long been out of service never names a limit: its next step is a repair.
func limits(t trace.Trace) []Violation {
	var f findings
	all := []limitsFrom{{}}
	held := map[string]bool{} // the Slots whose last status names a limit
	walk(t, func(s *state, i int, e trace.Event) {
		for slot := range held {
			if m := s.members[slot]; m != nil && s.down(slot) && s.now-m.changed > lostAfter+EvidenceAge {
				f.add(i, "%s is out of service since %s, and a limit of the cluster holds its repair", slot, m.changed)
				delete(held, slot)
			}
		}
		if e.Kind != trace.Committed {
			return
		}
		if strings.HasPrefix(e.Key, "groups/"+e.Group+"/slots/") {
			delete(held, e.Slot)
			if e.Limited && !e.Deleted {
				held[e.Slot] = true
			}
		}
		if e.Limits != nil {
			all = append(all, limitsFrom{e.At, ifKept(e, e.Limits)})
		}
		op := e.Operation
		if op == nil || e.Deleted || op.Phase.Ended() || s.operations[op.ID] != nil {
			return
		}
		limit := limitOf(op)
		work, rollouts := s.limitedWork(limit)
		rollouts[op.Group] = true
		within := func(name queue.Limit, n int) bool {
			return anyWithin(all, e.At, func(l *store.Limits) bool { return valueOf(l, name) == 0 || n <= valueOf(l, name) })
		}
		switch {
		case limit == queue.Creations && !within(queue.Creations, work+1):
			f.add(i, "%s creates %s, and %d creations are open", op.ID, op.Slot, work)
		case limit == queue.Steps && !within(queue.Steps, work+1):
			f.add(i, "%s takes %s away, and %d steps of rollouts are open", op.ID, op.Slot, work)
		case limit == queue.Steps && !within(queue.Rollouts, len(rollouts)):
			f.add(i, "%s takes %s away, and the rollouts of %v are in work", op.ID, op.Slot, sortedNames(rollouts))
		}
	})
	return f
}

// limitOf is the limit that counts op; "": none, since op is a repair, a request by name, or takes no member away.
func limitOf(op *operation.Operation) queue.Limit {
	switch {
	case op.Kind == operation.Create && op.Actor == operation.ActorScaling:
		return queue.Creations
	case ofRollout(op) && !op.Way.Refreshes() && !op.Before.Unavailable:
		return queue.Steps
	}
	return ""
}

// limitedWork counts the open work of a limit in all groups, and names the groups with an open step of a rollout.
func (s *state) limitedWork(limit queue.Limit) (n int, rollouts map[string]bool) {
	rollouts = map[string]bool{}
	for _, m := range s.members {
		for _, op := range m.open {
			of := limitOf(op)
			if of == limit {
				n++
			}
			if of == queue.Steps {
				rollouts[op.Group] = true
			}
		}
	}
	return n, rollouts
}
