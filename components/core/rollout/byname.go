package rollout

import (
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
	for i := range w.rec.Slots {
		r := &w.rec.Slots[i]
		if own := r.Group == w.spec.Name || r.Group == ""; own && w.spec.HasOrdinal(r.Ordinal) && (w.takenByName(r) || !w.obs.Frozen && w.askedAway(r)) {
			n++
		}
	}
	return n
}

// takenByName: a step that an operator asked for takes the Slot away, which served before.
func (w *world) takenByName(r *group.SlotRecord) bool {
	return slices.ContainsFunc(w.rec.Operations, func(op operation.Operation) bool {
		return op.Slot == r.Slot && !op.Phase.Ended() && op.Actor == operation.ActorOperator && op.Kind != operation.Delete && !op.WasUnavailable
	})
}

// askedAway: an operator asks for a step of the Slot, which serves, and no other word of theirs is
// against it. What is down needs nobody in its place.
func (w *world) askedAway(r *group.SlotRecord) bool {
	o := w.seenAt(r.Ordinal)
	if o == nil || o.Instance == nil || r.AvailableSince.IsZero() {
		return false
	}
	stands := func(m *Mark) bool { return m != nil && !m.ended(w.now) }
	switch {
	case stands(o.Protection), w.heldAnyway(r):
		return false
	case stands(o.Drain):
		return true
	}
	m := &member{slot: r.Slot, ordinal: r.Ordinal, record: *r, seen: *o}
	return slices.ContainsFunc(w.obs.Requests, func(q Request) bool {
		step := q.Kind == RequestRestart || q.Kind == RequestReplace
		return step && q.Slot == r.Slot && !q.Spent && !w.outlived(m, q)
	})
}

// heldAnyway: what the Slot would be given is what the rollout failed with, or nobody approved it.
func (w *world) heldAnyway(r *group.SlotRecord) bool {
	failed := w.rec.Rollout.State == operation.FailedState
	return (failed || !w.gate(w.target).Allowed) && w.stepOf(r) != group.ActionNone
}
