package rollout

import "cadre.dev/core/operation"

// A step that is re-targeted after its call leaves a CVM that boots another Revision while the admission still names
// the Boot before. Until a new Boot shows, the admission and the last report prove nothing about the CVM. If they
// counted as its state, the next Slot's step could begin at the same time.

// joinSuperseded records op if op can have moved m, or came after the Operation that moved m.
func (m *member) joinSuperseded(op *operation.Operation) {
	if op.Call.Number == 0 {
		return
	}
	if op.Phase == operation.Superseded || endsBetweenParts(op) {
		m.superseded = append(m.superseded, op)
	}
	// Only a call with a possible effect supersedes the call before it.
	if op.Before.Follows != "" && op.Phase.Ended() && !op.Call.InVain() {
		if m.followed == nil {
			m.followed = make(map[string]bool)
		}
		m.followed[op.Before.Follows] = true
	}
}

// endsBetweenParts: the platform refused a part of op after another part had taken its CVM down. The CVM's next Boot
// may stay refused, because it runs a mix of the old state and the wanted state.
func endsBetweenParts(op *operation.Operation) bool {
	return op.EndedHalfDone() && op.Call.InVain()
}

// findMoved returns the Operation, superseded or ended between two parts, whose call must still end the admitted Boot
// of m. If another call followed an Operation, that later call decides. A Boot that still reports when the effect must
// have shown was not affected.
func (w *world) findMoved(m *member, boot string) *operation.Operation {
	r := m.seen.Report
	for _, op := range m.superseded {
		shows := op.Call.IssuedAt.Add(w.t.Settle)
		if endsBetweenParts(op) {
			shows = op.Call.IssuedAt // the earlier part had shown when the refused part was called
		}
		lives := r != nil && r.BootID == boot && !r.ReceivedAt.Before(shows)
		if boot != "" && op.Before.BootID == boot && !m.followed[op.ID] && !lives {
			return op
		}
	}
	return nil
}

// follows returns the moved Operation for the record of the next Operation of m. An open Operation that is re-targeted
// will be superseded itself.
func (m *member) follows() string {
	switch {
	case m.open != nil && m.open.Way.Service == "" && m.seen.Admission != nil && m.open.Before.BootID == m.seen.Admission.BootID:
		return m.open.ID
	case m.moved != nil:
		return m.moved.ID
	}
	return ""
}
