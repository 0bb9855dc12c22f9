package world

import (
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// workload is a group's own cluster. Guarded by World.mu.
type workload struct {
	kind   string
	leader string
	epoch  uint64
	// voters are the members in its own configuration, sorted, running or not; learners have no
	// vote there. See set.go. In a workload without its own set, voters are the possible leaders,
	// each from its first start until its deletion.
	voters, learners []string
	// led: it had a leader once. electing: an election is under way; elects: it ends now.
	led, electing, elects bool
}

func (c *workload) leads() bool { return c.kind != plan.NoWorkload }

func (c *workload) votes() bool {
	return group.HasVoters(c.spec())
}

func (c *workload) join(slot string) {
	if !slices.Contains(c.voters, slot) {
		c.voters = append(c.voters, slot)
		slices.Sort(c.voters)
	}
}

func (c *workload) leave(slot string) {
	is := func(s string) bool { return s == slot }
	c.voters, c.learners = slices.DeleteFunc(c.voters, is), slices.DeleteFunc(c.learners, is)
}

// electLocked elects a leader where none leads and a member can. It records the members that begin
// or cease to serve, and why. Without a majority of the voters no member leads or serves.
func (w *World) electLocked(name, why string) {
	cluster := w.workloads[name]
	w.serveLocked(name, why, false)
	if cluster.leads() {
		able := slices.DeleteFunc(slices.Clone(cluster.voters), func(slot string) bool { return !w.wellLocked(slot) })
		can := len(able) > 0 && (!cluster.votes() || len(able) >= group.Quorum(len(cluster.voters)))
		if lead := cluster.leader; lead != "" && (!can || !slices.Contains(able, lead)) {
			w.leadLocked(name, "")
		}
		if can && cluster.leader == "" && w.electsLocked(name) {
			// A member that has caught up goes before a member that lags.
			first := max(slices.IndexFunc(able, func(slot string) bool { return w.cvmLocked(slot).caughtUp() }), 0)
			w.leadLocked(name, able[first])
		}
	}
	w.serveLocked(name, why, true)
}

// electsLocked reports that a group without a leader gets one now. After the loss of a leader it
// takes a while, until the remaining members notice.
func (w *World) electsLocked(name string) bool {
	cluster := w.workloads[name]
	if w.plan.Takes.Election == 0 || !cluster.led || cluster.elects {
		return true
	}
	if !cluster.electing {
		cluster.electing = true
		time.AfterFunc(time.Second+w.drawLocked("election "+name, w.plan.Takes.Election), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			cluster.electing, cluster.elects = false, true
			w.standLocked(name, "elects")
			cluster.elects = false
		})
	}
	return false
}

// serveLocked records the members that cease to serve, and, where elected, those members that begin
// to.
func (w *World) serveLocked(name, why string, elected bool) {
	cluster := w.workloads[name]
	votes := cluster.votes()
	for _, one := range w.cloud.AllLocked() {
		c := one.Guest
		if c.group() != name {
			continue
		}
		switch serves := c.well && c.caughtUp() && (!votes || cluster.leader != "" && slices.Contains(cluster.voters, c.slot)); {
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
	if slot != "" {
		cluster.led, w.cvmLocked(slot).behindUntil = true, time.Time{}
	}
	w.noteLocked(trace.Event{Kind: trace.Led, By: slot, Group: name, Slot: slot})
}
