package world

import (
	"fmt"
	"slices"
	"time"

	agent "cadre.dev/agent/simulated"
	"cadre.dev/core/group"
	"cadre.dev/simulator/trace"
)

// The voters of etcd and of Consul are in their own configuration, on the disks of their members.
// It lists a member whether the member runs or not, and does not change when a CVM is created or
// lost. A lost member counts against the majority until an operator or an agent removes it.
//
// The members named in etcd's first configuration form the set. A later member waits until it is
// listed, starts without a vote and then gets one. Consul's servers form the set when the expected
// number is up. Consul itself adds each later server, and also a removed server that still runs;
// the latter gets its vote later. The agent of the leading member changes both sets on orders, one
// change at a time.

func (c *workload) spec() group.Spec { return group.Spec{Workload: group.Workload{Kind: c.kind}} }

// changes reports that the set outlasts its members' CVMs.
func (c *workload) changes() bool { return group.ChangesSet(c.spec()) }

func (c *workload) listed(slot string) bool {
	return slices.Contains(c.voters, slot) || slices.Contains(c.learners, slot)
}

// started reports that the workload runs in the CVM, as far as the set permits it.
func (c *workload) started(m *cvm) bool {
	return !group.AddsMembers(c.spec()) || m.joined && c.listed(m.slot)
}

// enterLocked adds an admitted member to the set, as far as possible.
func (w *World) enterLocked(c *cvm) {
	cluster := w.workloads[c.group()]
	if c.boot == "" || !c.admitted || c.ill() {
		return
	}
	switch {
	case !cluster.changes():
		cluster.join(c.slot)
	case c.config == nil: // its role has not arrived yet
	case group.AddsMembers(cluster.spec()):
		w.enterEtcdLocked(cluster, c)
	default:
		w.enterConsulLocked(cluster, c)
	}
}

// catchesUp is the time in which a learner catches up.
const catchesUp = 25 * time.Second

func (w *World) enterEtcdLocked(cluster *workload, c *cvm) {
	switch m := c.config.Membership; {
	case c.joined:
	case m.Waits():
	case m != nil && m.Joins:
		c.joined, c.joinedAt = cluster.listed(c.slot), time.Now()
	case len(cluster.voters) == 0:
		c.joined = true
		cluster.voters = slices.Sorted(slices.Values(c.config.Members))
		w.listedLocked(c.group(), c.slot)
	default:
		c.joined = slices.Contains(cluster.voters, c.slot)
	}
}

// A Consul server that was removed and still runs is listed again after relists, and gets its vote
// after stabilizes.
const (
	relists    = 20 * time.Second
	stabilizes = 10 * time.Second
)

// lookAgainLocked updates the cluster of a group after d: no other event may add the member before.
func (w *World) lookAgainLocked(name string, d time.Duration) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.standLocked(name, "the set changed")
	})
}

func (w *World) enterConsulLocked(cluster *workload, c *cvm) {
	c.joined = true
	switch out := !c.outAt.IsZero(); {
	case slices.Contains(cluster.learners, c.slot):
		if cluster.leader != "" && time.Since(c.outAt) >= relists+stabilizes {
			cluster.leave(c.slot)
			cluster.join(c.slot)
			w.listedLocked(c.group(), c.slot)
		}
	case cluster.listed(c.slot), out && time.Since(c.outAt) < relists:
	case out && len(cluster.voters) > 0:
		if cluster.leader != "" && len(cluster.learners) == 0 {
			cluster.learners, c.outAt = []string{c.slot}, time.Now().Add(-relists)
			w.listedLocked(c.group(), c.slot)
			w.lookAgainLocked(c.group(), stabilizes)
		}
	case len(cluster.voters) > 0:
		if cluster.leader != "" {
			cluster.join(c.slot)
			w.listedLocked(c.group(), c.slot)
		}
	default:
		var up []string
		for _, one := range w.cloud.AllLocked() {
			other := one.Guest
			if other.group() == c.group() && other.joined && other.well || other == c {
				up = append(up, other.slot)
			}
		}
		if len(up) >= len(c.config.Members) {
			cluster.voters = up
			w.listedLocked(c.group(), c.slot)
		}
	}
}

// changeSetLocked makes a change of the set through c, which leads it. A repeated change succeeds.
func (w *World) changeSetLocked(c *cvm, change group.SetChange) error {
	cluster := w.workloads[c.group()]
	is := cluster.listed(change.Slot)
	switch {
	case !cluster.changes() || cluster.leader != c.slot || !c.well:
		return fmt.Errorf("%w: %s does not lead", agent.ErrTransient, c.slot)
	case change.Do == group.SetAdd && is, change.Do == group.SetRemove && !is,
		change.Do == group.SetPromote && slices.Contains(cluster.voters, change.Slot):
		return nil
	case change.Do == group.SetAdd && (len(cluster.learners) > 0 || !w.allVoteLocked(cluster)), change.Do == group.SetPromote && !w.caughtUpLocked(cluster, change.Slot):
		return agent.ErrBusy
	case change.Slot == c.slot:
		return fmt.Errorf("%w: a member that leads does not take itself out", agent.ErrUnsafe)
	}
	switch change.Do {
	case group.SetAdd:
		cluster.learners = []string{change.Slot}
	case group.SetPromote:
		cluster.learners = nil
		cluster.join(change.Slot)
	case group.SetRemove:
		cluster.leave(change.Slot)
		if out := w.cvmLocked(change.Slot); out != nil {
			out.outAt = time.Now()
			w.lookAgainLocked(c.group(), relists)
		}
	}
	w.listedLocked(c.group(), c.slot)
	if gone := w.cvmLocked(change.Slot); gone != nil && !cluster.started(gone) {
		gone.joined, gone.well = false, false
		w.electLocked(c.group(), "taken out of the set")
	}
	w.standLocked(c.group(), "the set changed")
	return nil
}

// allVoteLocked reports that the leader reaches each of the voters. Otherwise etcd lists no new
// member, not even one without a vote.
func (w *World) allVoteLocked(cluster *workload) bool {
	return !slices.ContainsFunc(cluster.voters, func(slot string) bool {
		c := w.cvmLocked(slot)
		return c == nil || !c.well
	})
}

// caughtUpLocked reports that a learner may get its vote.
func (w *World) caughtUpLocked(cluster *workload, slot string) bool {
	c := w.cvmLocked(slot)
	return slices.Contains(cluster.learners, slot) && c != nil && c.well && time.Since(c.joinedAt) >= catchesUp
}

// listedLocked records the members of the set from now on.
func (w *World) listedLocked(name, by string) {
	cluster := w.workloads[name]
	w.noteLocked(trace.Event{Kind: trace.Listed, By: by, Group: name, Voters: slices.Clone(cluster.voters), Learners: slices.Clone(cluster.learners)})
}
