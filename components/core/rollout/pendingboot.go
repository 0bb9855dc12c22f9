package rollout

import "cadre.dev/core/operation"

// A step that gets another To after its call has a CVM that boots another Revision, while the admission still names the
// Boot before. Until a new Boot shows, the admission and the last report prove nothing about the CVM. If they counted
// as its state, the next Slot's step could begin at the same time.

// endsBetweenParts: the platform refused a part of op after another part had taken its CVM down. The CVM's next Boot
// may stay refused, because it runs a mix of the old state and the wanted state.
func endsBetweenParts(op *operation.Operation) bool {
	return op.EndedHalfDone() && op.Call.InVain()
}

// findPendingBoot returns the Revision that a call gave to the CVM of m, if that call must still end the admitted Boot. A
// later call with a possible effect decides instead. A Boot that still reports when the effect must have shown was not
// affected.
func (w *world) findPendingBoot(m *member, boot string) (found operation.PendingBoot) {
	r := m.seen.Report
	for _, op := range m.pendingBoots {
		moved, shows := op.Before.PendingBoot, op.Before.PendingBoot.At.Add(w.t.Settle)
		if endsBetweenParts(op) {
			// The earlier part had shown when the refused part was called.
			moved, shows = operation.PendingBoot{To: op.To, BootID: op.Before.BootID, At: op.Call.IssuedAt}, op.Call.IssuedAt
		}
		if moved.BootID != boot {
			continue
		}
		found = moved
		lives := r != nil && r.BootID == boot && !r.ReceivedAt.Before(shows)
		if decides := op.Phase.Ended() && op.Call.Part != "" && !op.Call.InVain(); decides || lives {
			found = operation.PendingBoot{}
		}
	}
	return found
}

// pendingBootBefore returns the Revision that the CVM of m received before its next To, while no Boot shows it.
func (m *member) pendingBootBefore() operation.PendingBoot {
	op, a := m.open, m.seen.Admission
	if op != nil && op.Call.Part != "" && !op.Way.BootStays() && a != nil && a.BootID == op.Before.BootID {
		return operation.PendingBoot{To: op.To, BootID: a.BootID, At: op.Call.IssuedAt}
	}
	return m.pendingBoot
}
