package world

import (
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// workload is a group's own cluster. Guarded by World.mu.
type workload struct {
	kind   string
	leader string
	epoch  uint64
	// voters are the members that its own configuration lists, sorted: each from when it first
	// serves until it is removed, whether it runs or not.
	voters []string
}

func (c *workload) leads() bool { return c.kind != plan.NoWorkload }

func (c *workload) votes() bool {
	return group.HasVoters(group.Spec{Workload: group.Workload{Kind: c.kind}})
}

func (c *workload) join(slot string) {
	if !slices.Contains(c.voters, slot) {
		c.voters = append(c.voters, slot)
		slices.Sort(c.voters)
	}
}

func (c *workload) leave(slot string) {
	c.voters = slices.DeleteFunc(c.voters, func(s string) bool { return s == slot })
}

// electLocked has a member lead where none does and one can; without a majority nobody does.
func (w *World) electLocked(name string) {
	cluster := w.workloads[name]
	if !cluster.leads() {
		return
	}
	serving := slices.DeleteFunc(slices.Clone(cluster.voters), func(slot string) bool { return !w.servesLocked(slot) })
	can := len(serving) > 0
	if cluster.votes() {
		can = len(serving) >= group.Quorum(len(cluster.voters))
	}
	switch {
	case can && cluster.leader == "":
		w.leadLocked(name, serving[0])
	case !can && cluster.leader != "":
		w.leadLocked(name, "")
	}
}

func (w *World) leadLocked(name, slot string) {
	cluster := w.workloads[name]
	cluster.leader = slot
	cluster.epoch++
	w.noteLocked(trace.Event{Kind: trace.Led, By: slot, Group: name, Slot: slot})
}
