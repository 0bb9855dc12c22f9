package rollout_test

import (
	"maps"
	"slices"

	"cadre.dev/core/group"
)

// set is the membership of an etcd cluster: a set that admits no member automatically. It knows a member by its disk:
// another disk under the same name is a stranger.
type set struct {
	// disks are the known disks by Slot; learners are the Slots without a vote.
	disks    map[string]string
	learners map[string]bool
	// membership returns the orders of a Slot's agent; founders returns the Slots that bootstrap the set together.
	membership func(slot string) *group.Membership
	founders   func() []string
	// founded is the list that the set was bootstrapped with.
	founded []string
	broke   func(format string, args ...any)
}

// enter makes c a founder, or makes it wait until it is listed.
func (w *world) enter(c *cvm) {
	own, list := w.set.membership(c.slot), w.set.founders()
	if own != nil && len(own.Founders) > 0 {
		list = own.Founders
	}
	switch known := w.set.disks[c.slot]; {
	case own != nil && own.Joins, known == c.uuid:
		return
	case len(w.voters) == 0:
		w.set.founded = slices.Clone(list)
		w.voters = slices.Clone(list)
	case !slices.Equal(list, w.set.founded):
		w.set.broke("%s founds with %v a set that was founded with %v", c.slot, list, w.set.founded)
		return
	case !slices.Contains(w.voters, c.slot) || known != "":
		w.set.broke("%s founds a set of its own beside %v", c.slot, w.voters)
		return
	}
	w.set.disks[c.slot] = c.uuid
}

// starts: the set knows the member in c by its disk, and the agent has learned that.
func (w *world) starts(c *cvm) bool {
	if w.kind != group.WorkloadEtcd {
		return true
	}
	own := w.set.membership(c.slot)
	return w.set.disks[c.slot] == c.uuid && (own == nil || !own.Joins || slices.Contains(own.Set, c.slot))
}

// changeSet carries out the order of the leader's agent, if a majority can decide it.
func (w *world) changeSet() {
	lead := w.of(w.leader)
	if lead == nil || !w.works(lead) || lead.silent {
		return
	}
	own := w.set.membership(lead.slot)
	if own == nil || own.Change == nil {
		return
	}
	slot := own.Change.Slot
	c := w.of(slot)
	switch own.Change.Do {
	case group.SetAdd:
		if c == nil || len(w.set.learners) > 0 || slices.Contains(w.voters, slot) || !w.allVote() {
			return
		}
		w.set.learners[slot], w.set.disks[slot] = true, c.uuid
		w.log("%s lists %s", lead.slot, slot)
	case group.SetPromote:
		if c == nil || w.set.disks[slot] != own.Change.Member || !w.set.learners[slot] || !w.works(c) || w.now.Sub(c.upAt) < catchUpTakes {
			return
		}
		delete(w.set.learners, slot)
		w.voters = append(w.voters, slot)
		slices.Sort(w.voters)
		w.log("%s gives %s its vote", lead.slot, slot)
	case group.SetRemove:
		if !w.set.learners[slot] && !slices.Contains(w.voters, slot) || w.kind == group.WorkloadEtcd && w.set.disks[slot] != own.Change.Member {
			return
		}
		delete(w.set.learners, slot)
		delete(w.set.disks, slot)
		w.voters = slices.DeleteFunc(w.voters, func(v string) bool { return v == slot })
		w.log("%s takes %s out of the set", lead.slot, slot)
	}
}

// allVote: each of the voters is present. Otherwise etcd adds no member, even as a learner.
func (w *world) allVote() bool {
	return !slices.ContainsFunc(w.voters, func(slot string) bool {
		c := w.of(slot)
		return c == nil || !w.works(c)
	})
}

// listing returns the learners as the set's members report them.
func (w *world) listing() []string { return slices.Sorted(maps.Keys(w.set.learners)) }
