package rollout

import (
	"cmp"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// surgeOver: the rollout's need for extra members has ended, or updates are not automatic. Requests by name have their
// own extra members.
func (w *world) surgeOver() bool {
	r := w.rec.Rollout
	// Extra members that a newer spec finds serve the rollout of that spec.
	ended := r.To == w.asked && (reached(r.State) || r.State == operation.BakingState)
	return ended || w.spec.UpdatePolicy.Type == group.Opportunistic
}

// extrasOfUse counts the Slots that extra members can stand in for: Slots that wait for their update, and Slots
// requested by name.
func (w *world) extrasOfUse(named int) int {
	n := named
	if r := w.rec.Rollout; r.To == w.asked && r.State.Moves() && !w.surgeWaits() {
		for i := range w.rec.Slots {
			if one := &w.rec.Slots[i]; w.ofGroup(one) && w.spec.HasOrdinal(one.Ordinal) && (w.waitsAtWork(one) || slices.ContainsFunc(w.rec.Operations, pausesHalfDone(one.Slot))) {
				n++
			}
		}
		if n > named {
			n += w.failedSteps(r.To)
		}
	}
	if n == 1 && w.spec.Replicas == 1 && group.HasVoters(w.spec) {
		return 2 // of two voters none can be spared
	}
	return n
}

// failedSteps counts the Slots whose step to a Revision ended without an available member. Where max_failed tolerates them,
// each takes the room that an extra member makes for another Slot.
func (w *world) failedSteps(to string) (n int) {
	if w.spec.UpdatePolicy.MaxFailed == 0 {
		return 0
	}
	for i := range w.rec.Slots {
		r := &w.rec.Slots[i]
		n += btoi(w.ofGroup(r) && w.spec.HasOrdinal(r.Ordinal) && r.Assigned == to && r.WasAvailableAt != to && !w.underWay(r.Slot))
	}
	return n
}

// beyond describes the ordinals that the spec does not name.
type beyond struct {
	// extra holds the ordinals with an extra Slot; the value says whether the Slot has a CVM or a step.
	extra map[int]bool
	// taken are the ordinals that get no extra Slot: another CVM is there, or the spec names them.
	taken map[int]bool
	// lost counts the taken ordinals with the remains of an extra Slot. The remains go before another extra member
	// comes.
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
		default: // a Slot without the Extra mark was scaled in, and has data of its own
			out.taken[one.Ordinal] = true
			if one.Extra {
				out.lost++
			}
		}
	}
	for i := range w.obs.Slots {
		// A CVM whose record is lost is not taken for an extra member.
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
			out.taken[own.Ordinal] = true // a kept or pinned Slot would not be updated first
		}
	}
	return out
}

// extraLost: the CVM of an extra Slot and its disk are gone. No member needs that disk, so the Slot is given up and
// leaves its set like a Slot that is scaled in.
func (w *world) extraLost(r *group.SlotRecord) bool {
	o := w.seenAt(r.Ordinal)
	if o == nil {
		o = &SlotObservation{}
	}
	if bound := r.VMUUID != "" || r.InstanceID != ""; !bound || o.Instance != nil || !w.obs.Platform.Known || slices.Contains(w.obs.SilentNodes, r.Node) || w.underWay(r.Slot) {
		return false
	}
	heard := o.Report != nil && w.fresh(o.Report) || w.vouchedFor(r.Slot)
	kept := w.obs.Freeze != nil || o.Protection.stands(w.now)
	return !heard && !kept && !r.MissedSince.IsZero() && w.now.Sub(r.MissedSince) >= goneFor
}

// vouchedFor: another member names the Slot as its leader, or as its follower. The Slot lives even if a listing lacks
// it.
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

// surgeWaits: the rollout waits for an operator, an approval or a window. It keeps its extra members and makes no more, because
// updates would not follow. A request by name makes its own extra member.
func (w *world) surgeWaits() bool {
	if w.spec.UpdatePolicy.Type == group.Opportunistic || w.stoppedBy() != "" || w.windowClosed() || !w.mayRun(w.target) {
		return true
	}
	// A rollout completes all its Slots or none: a Slot that needs more disruption than allowed holds all.
	allowed := group.MostDisruptive(w.spec)
	return slices.ContainsFunc(w.rec.Slots, func(r group.SlotRecord) bool { return w.stepOf(&r).Harsher(allowed) })
}

// pausesHalfDone: the open step of the Slot waits between two parts of its change. The member may serve meanwhile, and its
// step may have begun without an extra member, for example while too few members served to form a quorum.
func pausesHalfDone(slot string) func(operation.Operation) bool {
	return func(op operation.Operation) bool {
		return op.Slot == slot && op.Kind == operation.Update && op.Phase == operation.Drained && op.Touched()
	}
}

// waitsAtWork: the Slot serves, and the rollout will take it away for its update. The update needs no decision of an
// operator.
func (w *world) waitsAtWork(r *group.SlotRecord) bool {
	to := w.pinOrTarget(r.Ordinal)
	return w.gate(to).Allowed && w.refusedStep(r.Slot, r.Ordinal, to) == "" && r.WasAvailableAt != "" && w.stepOf(r).Harsher(group.ActionRefresh) && !w.leftAlone(r) && !w.leaderAsked(r)
}

// holdsOfSurge: an extra member is made once a step that needs its room may begin. Until then its CVM would only cost.
func (w *world) holdsOfSurge(c candidate, _ evaluation) []Hold {
	if !c.m.extra {
		return nil
	}
	if why := w.tally.surge.of(w.allStepsWait); why != "" {
		return []Hold{hold(HoldSurgeWaits, "an extra slot is created once an update may begin: %s", why)}
	}
	return nil
}

// allStepsWait returns why the first step waits, if each step that takes a member away waits for an operator or another
// group, after any time; "": a step may begin, or began.
func (w *world) allStepsWait() (why string) {
	if slices.ContainsFunc(w.tally.open, func(m *member) bool { return m.open.Kind != operation.Create && !m.terminating }) {
		return ""
	}
	for _, c := range w.candidates() {
		if c.m.extra || c.refresh || c.actor == operation.ActorHealing || harmOf(c.kind) < disruptive || c.kind == operation.Delete {
			continue
		}
		l := evaluation{taken: &taken{}}
		holds := append(w.holdsOfGates(c, l), w.holdsOfVersion(c, l)...)
		if c.actor == operation.ActorRollout {
			holds = append(append(holds, w.holdsOfIrreversible(c, l)...), w.holdsOfAfter(c, l)...)
		}
		if holds, _ = w.passed(holds); len(holds) == 0 {
			return ""
		}
		why = cmp.Or(why, holds[0].Message)
	}
	return why
}

// pinOrTarget is the Revision that the spec names for the Slot of an ordinal.
func (w *world) pinOrTarget(ordinal int) string {
	return cmp.Or(w.spec.Instance(ordinal).PinnedRevision, w.target)
}

// leaderAsked: the Slot leads, by its own report, and the spec makes its step wait for an operator.
func (w *world) leaderAsked(r *group.SlotRecord) bool {
	o := w.seenAt(r.Ordinal)
	return w.spec.UpdatePolicy.Leader == group.LeaderAsk && o != nil && o.Report != nil && w.fresh(o.Report) && o.Report.Role == RoleLeader
}

// stepOf returns the disruption of the rollout's step of a Slot, from its record and its observation, before the set
// of members is settled. ActionNone: the Slot needs no step. A Slot without an observation counts as a reboot.
func (w *world) stepOf(r *group.SlotRecord) group.UpdateAction {
	by, to := w.keptBy(r.Ordinal), w.pinOrTarget(r.Ordinal)
	_, known := w.rec.Revisions[to]
	kept := !w.spec.HasOrdinal(r.Ordinal) || by != "" && by != group.KeptByPin || to != w.target && !known
	env, size, shaped := w.spec.OwnEnv(r.Ordinal, w.templateOf(to)) != r.OwnEnv, false, true
	// A Boot proves no size or image: a step may end at its Revision before the call for them.
	if o := w.seenAt(r.Ordinal); o != nil && o.Instance != nil && !o.Instance.InProgress && !w.underWay(r.Slot) {
		size, shaped = w.sizeUnapplied(r, o.Instance, to), w.shows(r.Ordinal, o.Instance, to)
	}
	if kept || r.Assigned == "" || r.Assigned == to && !env && shaped {
		return group.ActionNone
	}
	list, whole := w.changes(r.Assigned, to)
	list = append(slices.Clip(list), w.ownChanges(r.Ordinal, to, env, size)...)
	return w.costs(list, whole, func() bool { return w.bootsAsWanted(r, to) })
}

// bootsAsWanted: the Slot's Boot runs its assigned Revision, and its CVM measures as the Revision to. The running Boot
// can then prove to.
func (w *world) bootsAsWanted(r *group.SlotRecord, to string) bool {
	o := w.seenAt(r.Ordinal)
	if o == nil || o.Instance == nil || o.Admission == nil || o.Admission.Revision != r.Assigned {
		return false
	}
	return o.Instance.Running() && o.Instance.BootError == "" && w.measuredAs(r.Ordinal, o.Instance, to)
}

// leftAlone: an operator's override excludes the Slot from its update.
func (w *world) leftAlone(r *group.SlotRecord) bool {
	o := w.seenAt(r.Ordinal)
	return o != nil && (o.Drain.stands(w.now) || o.Protection.stands(w.now))
}
