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

// electLocked has a member lead where none does and one can, and notes who serves from now on, and
// who does not, and why. Without a majority of those that vote nobody leads, and nobody serves.
func (w *World) electLocked(name, why string) {
	cluster := w.workloads[name]
	w.serveLocked(name, why, false)
	if cluster.leads() {
		able := slices.DeleteFunc(slices.Clone(cluster.voters), func(slot string) bool { return !w.wellLocked(slot) })
		can := len(able) > 0 && (!cluster.votes() || len(able) >= group.Quorum(len(cluster.voters)))
		if lead := cluster.leader; lead != "" && (!can || !slices.Contains(able, lead)) {
			w.leadLocked(name, "")
		}
		if can && cluster.leader == "" {
			w.leadLocked(name, able[0])
		}
	}
	w.serveLocked(name, why, true)
}

// serveLocked notes who does not serve any more, and who does where elected.
func (w *World) serveLocked(name, why string, elected bool) {
	cluster := w.workloads[name]
	votes := cluster.votes()
	for _, c := range w.sortedLocked() {
		if c.group() != name {
			continue
		}
		switch serves := c.well && (!votes || cluster.leader != ""); {
		case serves && !c.served && elected:
			w.noteLocked(trace.Event{Kind: trace.Served, By: c.slot, Group: name, Slot: c.slot, Boot: c.boot})
		case !serves && c.served:
			w.noteLocked(trace.Event{Kind: trace.Stopped, By: c.slot, Group: name, Slot: c.slot, Boot: c.boot, Text: why})
		default:
			continue
		}
		c.served = !c.served
	}
}

func (w *World) leadLocked(name, slot string) {
	cluster := w.workloads[name]
	cluster.leader = slot
	cluster.epoch++
	w.noteLocked(trace.Event{Kind: trace.Led, By: slot, Group: name, Slot: slot})
}
