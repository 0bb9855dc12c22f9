package rollout

import (
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
)

// Unfinished returns why a group has not finished its own work; "": its newest spec is accepted and evaluated, its
// rollout is over, and all Slots are available. index is the KV index of the accepted spec.
func Unfinished(spec group.Spec, index uint64, s group.Status) string {
	state := operation.RolloutState(s.RolloutState)
	switch {
	case s.ObservedIndex != index || s.Target != spec.Revision() || s.Replicas != spec.Replicas:
		return "the leader has not evaluated its newest spec yet"
	case state == operation.FailedState:
		return "its rollout failed; decide about it: cadre rollout describe " + spec.Name
	case state != operation.Complete && state != operation.PartitionReached:
		return "its rollout is " + s.RolloutState
	case spec.Stopped:
		return "it is stopped by its spec"
	case s.Available < s.Replicas:
		return fmt.Sprintf("%d of %d slots are available", s.Available, s.Replicas)
	}
	return ""
}

// holdsOfAfter holds the first creation of a group, and the voluntary steps of its rollout, until the groups that it is
// `after` have finished. A deletion goes in reverse.
func (w *world) holdsOfAfter(c candidate, _ evaluation) []Hold {
	switch {
	case c.kind == operation.Delete && w.ending():
		return w.holdsOfFollowers()
	case w.ending() || len(w.spec.After) == 0 || c.m.open != nil:
		return nil
	case c.kind == operation.Create && !w.begins(), c.kind == operation.Delete:
		return nil
	case c.rolls() && (c.actor != operation.ActorRollout || c.m.down()):
		return nil
	case len(w.obs.Cycle) > 0:
		return []Hold{hold(HoldAfterGroup, "`after` has a cycle: %s; remove one of the entries", group.CycleText(w.obs.Cycle))}
	}
	var holds []Hold
	for _, name := range w.spec.After {
		if why := w.obs.unfinished(name); why != "" {
			holds = append(holds, hold(HoldAfterGroup, "waits for group %s: %s", name, why))
		}
	}
	return holds
}

// unfinished returns why the group waits for one of its predecessors; "": it does not.
func (o *Order) unfinished(name string) string {
	for _, p := range o.Predecessors {
		if p.Group == name {
			return p.Waits
		}
	}
	return "its state is not known yet"
}

func (w *world) holdsOfFollowers() []Hold {
	if len(w.obs.Followers) == 0 {
		return nil
	}
	return []Hold{hold(HoldAfterGroup, "the groups that are after %s go first: %s; delete them too, or remove %s from their `after`",
		w.spec.Name, names.Few(w.obs.Followers, ", "), w.spec.Name)}
}

// begins: the group has no CVM, and none is being made.
func (w *world) begins() bool {
	return !slices.ContainsFunc(w.everyone, func(m *member) bool {
		return m.open != nil || m.seen.Instance != nil || m.record.VMUUID != ""
	})
}
