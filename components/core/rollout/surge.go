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
	if limit == 0 || w.rec.Rollout == nil {
		return nil
	}
	named := w.wantedByName()
	if named == 0 && w.surgeOver() {
		return nil
	}
	there := w.beyond()
	first := 0
	if all := w.spec.Ordinals(); len(all) > 0 {
		first = all[len(all)-1] + 1
	}
	end := min(first+limit+len(there.taken), group.MaxReplicas)
	var out []int
	for n := first; n < end && len(out) < limit; n++ {
		if there.extra[n] {
			out = append(out, n)
		}
	}
	most := min(w.extrasOfUse(named), limit-there.lost)
	for n := first; n < end && len(out) < most; n++ {
		if !there.extra[n] && !there.taken[n] {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// surgeOver: what extra members are made for without being asked for by name is done, or is not
// to be done by itself.
func (w *world) surgeOver() bool {
	r := w.rec.Rollout
	// What a newer spec finds is of use to the rollout that begins with it.
	ended := r.To == w.target && (r.State == operation.Complete || r.State == operation.PartitionReached)
	return ended || w.spec.UpdatePolicy.Type == group.Opportunistic
}

// extrasOfUse is how many extra members have Slots to stand in for: those that wait for their
// update, and those that are asked for by name.
func (w *world) extrasOfUse(named int) int {
	n := named
	if r := w.rec.Rollout; r.To == w.target && r.State == operation.Running && !w.surgeWaits() {
		for i := range w.rec.Slots {
			if one := &w.rec.Slots[i]; w.ofGroup(one) && w.spec.HasOrdinal(one.Ordinal) && w.waitsAtWork(one) {
				n++
			}
		}
	}
	if n == 1 && w.spec.Replicas == 1 && group.HasVoters(w.spec) {
		return 2 // of two voters none can be spared
	}
	return n
}

// beyond is what stands at ordinals that the spec does not name.
type beyond struct {
	// extra holds the ordinals with an extra Slot, and whether that has a CVM or a step.
	extra map[int]bool
	// taken are the ordinals where none is made: somebody else is there, or the spec speaks of them.
	taken map[int]bool
	// lost is how many of them are what is left of an extra Slot: it goes before another one comes.
	lost int
}

func (w *world) beyond() beyond {
	out := beyond{extra: map[int]bool{}, taken: map[int]bool{}}
	for i := range w.rec.Slots {
		one := &w.rec.Slots[i]
		switch {
		case !w.ofGroup(one) || w.spec.HasOrdinal(one.Ordinal):
		case one.Extra && !w.extraLost(one):
			out.extra[one.Ordinal] = one.VMUUID != "" || one.InstanceID != "" || w.underWay(one.Slot)
		default: // without the mark it was scaled in: it has data of its own
			out.taken[one.Ordinal] = true
			if one.Extra {
				out.lost++
			}
		}
	}
	for i := range w.obs.Slots {
		// A CVM whose record is lost is nobody's to take for an extra one.
		o := &w.obs.Slots[i]
		if _, extra := out.extra[o.Ordinal]; o.Instance != nil && !extra && !w.spec.HasOrdinal(o.Ordinal) {
			out.taken[o.Ordinal] = true
		}
	}
	for _, slot := range w.spec.Without {
		if _, ordinal, err := group.ParseSlot(slot); err == nil {
			out.taken[ordinal] = true
		}
	}
	for _, own := range w.spec.Instances {
		if !w.spec.HasOrdinal(own.Ordinal) {
			out.taken[own.Ordinal] = true // kept back, or pinned, it were not updated first
		}
	}
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
	kept := w.obs.Freeze != nil || o.Protection.stands(w.now)
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
	if w.spec.UpdatePolicy.Type == group.Opportunistic || w.stoppedBy() != "" || !w.mayRun(w.target) {
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
	by, to := w.keptBy(r.Ordinal), w.pinOrTarget(r.Ordinal)
	_, known := w.rec.Revisions[to]
	kept := !w.spec.HasOrdinal(r.Ordinal) || by != "" && by != group.KeptByPin || to != w.target && !known
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

// leftAlone: an operator's override keeps the Slot from its update.
func (w *world) leftAlone(r *group.SlotRecord) bool {
	o := w.seenAt(r.Ordinal)
	return o != nil && (o.Drain.stands(w.now) || o.Protection.stands(w.now))
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
	if c.condition != well || c.refresh {
		limit = max(limit, 1)
	}
	return limit, text
}
