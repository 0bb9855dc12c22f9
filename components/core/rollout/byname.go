package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// A group that may spare nobody (max_unavailable 0) restarts, drains and replaces a member that
// is well behind an extra one too, or what is asked for by a Slot's name would be held for ever.
// The extra one goes when nothing of the kind is left.

// wantedByName is how many Slots are away, or are to be, by an operator's word about them alone.
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

// takenByName are the Slots that a step takes away which an operator asked for, and that served before.
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

// askedAway: an operator asks for a step of the Slot, which serves, and no other word of theirs is
// against it. What is down needs nobody in its place.
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

// heldAnyway: the Slot would be given what it may not have: nobody approved it, the rollout failed
// with it, or the platform refuses it; or it is there. A restart gives it nothing.
func (w *world) heldAnyway(r *group.SlotRecord, q Request) bool {
	to := w.pinOrTarget(r.Ordinal)
	failed := w.rec.Rollout.State == operation.FailedState || w.obs.Refused[to] != ""
	switch q.Kind {
	case RequestRestart:
		return false
	case RequestUpdate:
		return failed || !w.gate(to).Allowed || !w.stepOf(r).Harsher(group.ActionRefresh)
	case RequestReplace:
		return !w.gate(to).Allowed && w.stepOf(r) != group.ActionNone
	case RequestResolve, RequestRetry:
	}
	return true // it takes nothing away
}

// givenSince: the CVM of m was given something else than its last Boot proved, so that a boot of it is none of
// what m runs, or is not let in.
func (w *world) givenSince(m *member) bool {
	was, i := w.rec.Revisions[m.observed].ComposeHash, m.seen.Instance
	shows := i != nil && i.ComposeHash != "" && was != "" && i.ComposeHash != was
	assigned := m.record.Assigned
	return m.observed != "" && (m.moved != nil || shows || assigned != "" && assigned != m.observed)
}

// updatedFirst: a restart of m that is asked for waits for the update that finishes what its CVM was given.
func (w *world) updatedFirst(m *member) bool {
	return w.givenSince(m) && w.outdated(m) && !w.triedAtTarget(m, false)
}

// holdsOfUnfinished: a restart stays at what runs, and no boot of this CVM would.
func (w *world) holdsOfUnfinished(c candidate, _ look) []Hold {
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
