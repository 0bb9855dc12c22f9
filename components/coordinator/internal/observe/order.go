package observe

import (
	"slices"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/queue"
	"cadre.dev/core/rollout"
)

// order returns the facts about the groups that the group is `after`, and while it is being deleted, about the groups
// that are `after` it.
func order(v *view.View, spec group.Spec) (o rollout.Order) {
	_, deleted := v.Deletes[spec.Name]
	if len(spec.After) == 0 && !deleted {
		return o
	}
	all := v.All()
	after := map[string][]string{}
	for name, other := range all.SpecsInForce() {
		after[name] = other.After
	}
	after[spec.Name] = spec.After
	o.Cycle = group.Cycle(spec.Name, after)
	if own, known := all.Specs[spec.Name]; !known || own.Index >= v.Specs[spec.Name].Index {
		// The records of the other groups are as new as the spec: each spec that was written before it is among them.
		for _, name := range spec.After {
			o.Predecessors = append(o.Predecessors, rollout.Predecessor{Group: name, Waits: unfinished(all, v, name)})
		}
	}
	if !deleted {
		return o
	}
	for _, name := range all.Known() {
		if name != spec.Name && slices.Contains(after[name], spec.Name) && !slices.Contains(o.Cycle, name) {
			o.Followers = append(o.Followers, name)
		}
	}
	return o
}

// unfinished returns why a group has not finished its own work. The requests for deletions are those of own, the newest
// read.
func unfinished(all, own *view.View, name string) string {
	stored, exists := all.Specs[name]
	accepted := all.Accepted[name]
	_, deleted := own.Deletes[name]
	switch {
	case !exists && accepted.Index == 0:
		return "there is no such group yet: apply it, or remove it from `after`"
	case deleted:
		return "it is being deleted"
	case !exists || accepted.SpecIndex != stored.Index:
		return "its newest spec is not accepted; cadre group describe " + name + " says why"
	}
	return rollout.Unfinished(accepted.Value, stored.Index, all.Statuses[name].Value)
}

// Queue returns the limits of the cluster and the facts of all groups; nil: there are no limits.
func Queue(v *view.View) *rollout.Queue {
	if !v.Limits.Any() {
		return nil
	}
	return &rollout.Queue{Limits: v.Limits.Of(), Unread: v.Limits.Unread, Groups: Places(v)}
}

// Places returns the facts of all groups that the limits of the cluster need. A group whose records cannot be read keeps
// its places, and waits for none.
func Places(v *view.View) (out []queue.Group) {
	all := v.All()
	at := map[string]int{}
	for _, name := range all.Known() {
		spec, _, _ := all.InForce(name)
		g := queue.Group{Name: name, Priority: spec.PriorityOrDefault()}
		if was := all.Statuses[name].Value.Queue; was != nil {
			g.Place = *was
		}
		if all.Unusable(name) != nil {
			g.Step.Ready, g.Create.Ready = false, false
		}
		at[name] = len(out)
		out = append(out, g)
	}
	for _, op := range all.Operations {
		if i, known := at[op.Value.Group]; known && !op.Value.Phase.Ended() {
			out[i].Count(rollout.LimitOf(op.Value))
		}
	}
	return out
}
