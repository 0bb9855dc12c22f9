package rollout

import (
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// Extra members (R15a): for the time of a rollout a group with max_surge has some more, so
// that as many serve as it is to have while one of them is away. They are made like every
// Slot that is made during a rollout, at the stable Revision (R107; a platform makes no CVM at
// content that no CVM of the app had yet), and updated first: their ordinals are the highest.
// They have disks of their own, of which nobody needs the data when they go.

// extras are the ordinals of the Slots that the group has for the time of its rollout.
func (w *world) extras() []int {
	limit := group.MaxSurge(w.spec)
	r := w.rec.Rollout
	if limit == 0 || r == nil {
		return nil
	}
	// What a newer spec finds is of use to the rollout that begins with it.
	current := r.To == w.target
	if current && (r.State == operation.Complete || r.State == operation.PartitionReached) {
		return nil
	}
	// have holds the ordinals with an extra Slot, and whether that has a CVM or a step.
	taken, have := map[int]bool{}, map[int]bool{}
	left := 0
	for i := range w.rec.Slots {
		one := &w.rec.Slots[i]
		switch {
		case one.Group != w.spec.Name && one.Group != "":
		case w.spec.HasOrdinal(one.Ordinal):
			if w.waitsAtWork(one) {
				left++
			}
		case one.Extra:
			have[one.Ordinal] = one.VMUUID != "" || one.InstanceID != "" || w.underWay(one.Slot)
		default:
			taken[one.Ordinal] = true // scaled in: it has data of its own
		}
	}
	for i := range w.obs.Slots {
		// A CVM whose record is lost is nobody's to take for an extra one.
		o := &w.obs.Slots[i]
		if _, extra := have[o.Ordinal]; o.Instance != nil && !extra && !w.spec.HasOrdinal(o.Ordinal) {
			taken[o.Ordinal] = true
		}
	}
	// A rollout that waits for somebody keeps what it has, and makes nothing more.
	making := current && r.State == operation.Running && w.spec.UpdatePolicy.Type != group.Opportunistic && !w.obs.Paused && !w.obs.Frozen
	var out []int
	first := 0
	if all := w.spec.Ordinals(); len(all) > 0 {
		first = all[len(all)-1] + 1
	}
	for n := first; len(out) < limit && n < first+limit+len(taken) && n < group.MaxReplicas; n++ {
		if have[n] || making && !taken[n] && len(out) < left {
			out = append(out, n)
		}
	}
	return out
}

// underWay: an Operation of the Slot is open.
func (w *world) underWay(slot string) bool {
	return slices.ContainsFunc(w.rec.Operations, func(op operation.Operation) bool { return op.Slot == slot && !op.Phase.Ended() })
}

// waitsAtWork: the Slot serves at another Revision than the target, and the rollout is to
// update it.
func (w *world) waitsAtWork(r *group.SlotRecord) bool {
	own := w.spec.Instance(r.Ordinal)
	if own.PinnedRevision != "" {
		return r.WasAvailableAt != "" && r.Assigned != own.PinnedRevision
	}
	if r.Ordinal < w.spec.UpdatePolicy.Partition || own.ExcludeFromRollout {
		return false
	}
	return r.WasAvailableAt != "" && r.Assigned != w.target
}

// spare is the number of extra members that are available beside except: as many more of the
// others may be away.
func (w *world) spare(except *member, t *taken) (n int) {
	for _, m := range w.tally.extras {
		if m != except && !t.has(m) {
			n++
		}
	}
	return n
}

// budget is how many of the Slots may be away with c, with the words for it. An extra member
// that is away is not one of them: it is one that the others cannot count on. A group that may
// take nobody away repairs one at a time all the same.
func (w *world) budget(c candidate, t *taken) (limit int, text string) {
	limit = group.MaxUnavailable(w.spec)
	text = fmt.Sprintf("max_unavailable is %d", limit)
	if spare := w.spare(c.m, t); spare > 0 {
		limit += spare
		text += fmt.Sprintf(", %d extra slot(s) are available", spare)
	}
	if c.m.extra {
		limit++
	}
	if c.broken != whole {
		limit = max(limit, 1)
	}
	return limit, text
}
