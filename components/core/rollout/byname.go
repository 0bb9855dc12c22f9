package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// A group with max_unavailable 0 restarts, drains and replaces a healthy member behind an extra Slot as well.
// Without the extra Slot, the planner would hold an operator's request for a Slot permanently. The planner removes
// the extra Slot when no such step is left.

// wantedByName counts the Slots that are away, or are about to be, because an operator's request names them.
func (w *world) wantedByName() (n int) {
	if group.MaxUnavailable(w.spec) > 0 {
		return 0
	}
	taken := w.takenByName()
	for i := range w.rec.Slots {
		r := &w.rec.Slots[i]
		if w.ofGroup(r) && w.spec.HasOrdinal(r.Ordinal) && (taken[r.Slot] || w.obs.Freeze == nil && w.askedAway(r)) {
			n++
		}
	}
	return n
}

// takenByName returns the Slots that served before an operator's request took them away.
func (w *world) takenByName() map[string]bool {
	out := map[string]bool{}
	for i := range w.rec.Operations {
		op := &w.rec.Operations[i]
		if !op.Phase.Ended() && op.Actor == operation.ActorOperator && op.Kind != operation.Delete && !op.Before.Unavailable {
			out[op.Slot] = true
		}
	}
	return out
}

// askedAway reports that an operator's request takes away the Slot, which serves, and that no other operator
// override prevents it. A Slot that is down needs no replacement capacity.
func (w *world) askedAway(r *group.SlotRecord) bool {
	o := w.seenAt(r.Ordinal)
	if o == nil || o.Instance == nil || r.AvailableSince.IsZero() {
		return false
	}
	switch {
	case o.Protection.stands(w.now):
		return false
	case o.Drain.stands(w.now):
		return true
	}
	m := &member{slot: r.Slot, ordinal: r.Ordinal, record: *r, seen: *o}
	return slices.ContainsFunc(w.obs.Requests, func(q Request) bool {
		return q.Slot == r.Slot && !q.Spent && !w.outlived(m, q) && !w.heldAnyway(r, q)
	})
}

// heldAnyway reports that another condition holds the request q. The Revision may lack approval, the rollout may
// have failed with it, the platform may refuse it, or the Slot may be at it already. A restart changes no Revision.
func (w *world) heldAnyway(r *group.SlotRecord, q Request) bool {
	to := w.pinOrTarget(r.Ordinal)
	failed := w.rec.Rollout.State == operation.FailedState || w.refusedStep(r.Slot, r.Ordinal, to) != ""
	switch q.Kind {
	case RequestRestart:
		return false
	case RequestUpdate:
		return failed || !w.gate(to).Allowed || !w.stepOf(r).Harsher(group.ActionRefresh)
	case RequestReplace, RequestResolve, RequestRetry, RequestPromote: // the last three name no Slot
	}
	return !w.gate(to).Allowed && w.stepOf(r) != group.ActionNone
}

// givenSince reports that the CVM of m was given other content than its last Boot proved. A new boot of that CVM
// would run another Revision than m runs now, or would be refused.
func (w *world) givenSince(m *member) bool {
	was, i := w.rec.Revisions[m.observed].ComposeHash, m.seen.Instance
	shows := i != nil && i.ComposeHash != "" && was != "" && i.ComposeHash != was
	assigned := m.record.Assigned
	return m.observed != "" && (m.pendingBoot.To != "" || shows || assigned != "" && assigned != m.observed)
}

// updatedFirst reports that a requested restart of m waits for the update that boots the content given to its CVM.
func (w *world) updatedFirst(m *member) bool {
	return w.givenSince(m) && w.outdated(m) && !w.triedAtTarget(m, false)
}

// holdsOfUnfinished: a restart keeps the running Revision, and a boot of this CVM would change it.
func (w *world) holdsOfUnfinished(c candidate, _ evaluation) []Hold {
	m := c.m
	if c.service != "" || !w.givenSince(m) {
		return nil
	}
	way := fmt.Sprintf("to finish that: cadre instance update %s; to leave it: cadre rollout undo %s", m.slot, w.spec.Name)
	if m.want.kept {
		way = fmt.Sprintf("no update is made of it (%s): end that, or, with another disk: cadre instance replace %s", m.want.why, m.slot)
	}
	return []Hold{hold(HoldUpdateUnfinished, "%s runs %.8s, and its CVM was given %.8s, which a restart would boot; %s",
		m.slot, m.observed, cmp.Or(m.record.Assigned, m.want.revision), way)}
}
