package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// Extra members (R15a): for the time of a rollout a group with max_surge has some more, so
// that as many serve as it is to have while one of them is away; one that may spare nobody also
// for what is asked for by a Slot's name (byname.go). They are made like every
// Slot that is made during a rollout, at the stable Revision (R107; a platform makes no CVM at
// content that no CVM of the app had yet), and updated first: their ordinals are the highest.
// They have disks of their own, of which nobody needs the data when they go.

// extras are the ordinals of the Slots that the group has for the time of its rollout, or of what
// is asked for by name.
func (w *world) extras() []int {
	limit := group.MaxSurge(w.spec)
	r := w.rec.Rollout
	if limit == 0 || r == nil {
		return nil
	}
	// What a newer spec finds is of use to the rollout that begins with it.
	current := r.To == w.target
	over := w.spec.UpdatePolicy.Type == group.Opportunistic || current && (r.State == operation.Complete || r.State == operation.PartitionReached)
	named := w.wantedByName()
	if over && named == 0 {
		return nil
	}
	// have holds the ordinals with an extra Slot, and whether that has a CVM or a step.
	taken, have := map[int]bool{}, map[int]bool{}
	waits, lost := 0, 0
	for i := range w.rec.Slots {
		one := &w.rec.Slots[i]
		switch {
		case one.Group != w.spec.Name && one.Group != "":
		case w.spec.HasOrdinal(one.Ordinal):
			if w.waitsAtWork(one) {
				waits++
			}
		case one.Extra && w.extraLost(one):
			taken[one.Ordinal] = true
			lost++ // what is left of it goes before another one comes
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
	left := named
	if current && r.State == operation.Running && !w.surgeWaits() {
		left += waits
	}
	if left == 1 && w.spec.Replicas == 1 && group.HasVoters(w.spec) {
		left = 2 // of two voters none can be spared
	}
	first := 0
	if all := w.spec.Ordinals(); len(all) > 0 {
		first = all[len(all)-1] + 1
	}
	end := min(first+limit+len(taken), group.MaxReplicas)
	var out []int
	for n := first; n < end && len(out) < limit; n++ {
		if have[n] {
			out = append(out, n)
		}
	}
	for n := first; n < end && len(out) < min(left, limit-lost); n++ {
		if !have[n] && !taken[n] {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// extraLost: the CVM of an extra Slot is gone, and its disk, which is nobody's: it is given up,
// and leaves its set, as one that is scaled in.
func (w *world) extraLost(r *group.SlotRecord) bool {
	o := w.seenAt(r.Ordinal)
	if o == nil {
		o = &SlotObservation{}
	}
	if bound := r.VMUUID != "" || r.InstanceID != ""; !bound || o.Instance != nil || !w.obs.Platform.Known || w.underWay(r.Slot) {
		return false
	}
	heard := o.Report != nil && w.fresh(o.Report) || w.vouchedFor(r.Slot)
	kept := w.obs.Frozen || o.Protection != nil && !o.Protection.ended(w.now)
	return !heard && !kept && !r.MissedSince.IsZero() && w.now.Sub(r.MissedSince) >= goneFor
}

// vouchedFor: another member says that the Slot leads, or follows it: whatever listings lack, it lives.
func (w *world) vouchedFor(slot string) bool {
	return slices.ContainsFunc(w.obs.Slots, func(o SlotObservation) bool {
		r := o.Report
		return r != nil && w.fresh(r) && (r.Leader == slot || slices.Contains(r.Followers, slot))
	})
}

// underWay: an Operation of the Slot is open.
func (w *world) underWay(slot string) bool {
	return slices.ContainsFunc(w.rec.Operations, func(op operation.Operation) bool { return op.Slot == slot && !op.Phase.Ended() })
}

// surgeWaits: the rollout waits for somebody, so that it keeps the extra members that it has and
// makes none: nothing would be updated behind one. What is asked for by name makes its own.
func (w *world) surgeWaits() bool {
	if w.spec.UpdatePolicy.Type == group.Opportunistic || w.obs.Paused || w.obs.Frozen || !w.mayRun(w.target) {
		return true
	}
	// Nothing of a rollout is done by half: one Slot that needs more than is allowed holds all.
	allowed := group.MostDisruptive(w.spec)
	return slices.ContainsFunc(w.rec.Slots, func(r group.SlotRecord) bool { return w.stepOf(&r).Harsher(allowed) })
}

// waitsAtWork: the Slot serves, and the rollout is to take it away for its update, for which nobody is waited
// for.
func (w *world) waitsAtWork(r *group.SlotRecord) bool {
	return w.mayRun(w.pinOrTarget(r.Ordinal)) && r.WasAvailableAt != "" && w.stepOf(r).Harsher(group.ActionRefresh) && !w.leftAlone(r) && !w.leaderAsked(r)
}

// pinOrTarget is the Revision that the spec names for the Slot of an ordinal.
func (w *world) pinOrTarget(ordinal int) string {
	return cmp.Or(w.spec.Instance(ordinal).PinnedRevision, w.target)
}

// leaderAsked: the Slot leads, by its own word, and the spec has its step wait for a person.
func (w *world) leaderAsked(r *group.SlotRecord) bool {
	o := w.seenAt(r.Ordinal)
	return w.spec.UpdatePolicy.Leader == group.LeaderAsk && o != nil && o.Report != nil && w.fresh(o.Report) && o.Report.Role == RoleLeader
}

// stepOf is what the rollout's step of a Slot costs, by its record and what is seen of it: before
// who the members are is settled. ActionNone: there is no step. One that nothing is known of boots.
func (w *world) stepOf(r *group.SlotRecord) group.UpdateAction {
	own := w.spec.Instance(r.Ordinal)
	to := w.pinOrTarget(r.Ordinal)
	_, known := w.rec.Revisions[to]
	kept := !w.spec.HasOrdinal(r.Ordinal) || r.Ordinal < w.spec.UpdatePolicy.Partition || own.ExcludeFromRollout || to != w.target && !known
	env := w.spec.OwnEnv(r.Ordinal, w.templateOf(to)) != r.OwnEnv
	if kept || r.Assigned == "" || r.Assigned == to && !env {
		return group.ActionNone
	}
	list, whole := w.changes(r.Assigned, to)
	if env {
		list = withEnv(r.Ordinal, list)
	}
	return w.costs(list, whole, func() bool { return w.bootsAsWanted(r, to) })
}

// bootsAsWanted: the Boot of the Slot is at what it was given, and its CVM is what the Revision
// to measures, so that it can prove that as it runs.
func (w *world) bootsAsWanted(r *group.SlotRecord, to string) bool {
	o := w.seenAt(r.Ordinal)
	if o == nil || o.Instance == nil || o.Admission == nil || o.Admission.Revision != r.Assigned {
		return false
	}
	return o.Instance.Running() && o.Instance.BootError == "" && w.measuredAs(o.Instance, to)
}

// leftAlone: an operator's mark keeps the Slot from its update.
func (w *world) leftAlone(r *group.SlotRecord) bool {
	o := w.seenAt(r.Ordinal)
	stands := func(m *Mark) bool { return m != nil && !m.ended(w.now) }
	return o != nil && (stands(o.Drain) || stands(o.Protection))
}

// seenAt is what is seen of the Slot of an ordinal, nil for nothing.
func (w *world) seenAt(ordinal int) *SlotObservation {
	if w.seenBy == nil {
		w.seenBy = make(map[int]*SlotObservation, len(w.obs.Slots))
		for i := range w.obs.Slots {
			w.seenBy[w.obs.Slots[i].Ordinal] = &w.obs.Slots[i]
		}
	}
	return w.seenBy[ordinal]
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
// take nobody away repairs one at a time all the same, and refreshes one: that stops nothing.
func (w *world) budget(c candidate, t *taken) (limit int, text string) {
	limit = group.MaxUnavailable(w.spec)
	text = fmt.Sprintf("max_unavailable is %d", limit)
	if spare := w.spare(c.m, t); spare > 0 {
		limit += spare
		text += fmt.Sprintf(", %d extra %s available", spare, pick(spare == 1, "slot is", "slots are"))
	}
	if c.m.extra {
		limit++
	}
	if c.broken != whole || c.refresh {
		limit = max(limit, 1)
	}
	return limit, text
}
