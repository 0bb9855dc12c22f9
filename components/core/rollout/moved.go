package rollout

import "cadre.dev/core/operation"

// A step that is re-targeted after its call leaves a CVM that was told to boot one thing
// while the admission still names the Boot before. Until a new Boot shows, what is admitted
// and what it last reported say nothing about the CVM: taken for its state, they let the
// next Slot go beside it.

// joinSuperseded notes op where it can be what moved m, or what came after that.
func (m *member) joinSuperseded(op *operation.Operation) {
	if op.Call.Number == 0 {
		return
	}
	if op.Phase == operation.Superseded || endsBetweenParts(op) {
		m.superseded = append(m.superseded, op)
	}
	// A call that certainly had no effect tells nothing about the one before.
	if op.Before.Follows != "" && op.Phase.Ended() && !op.Call.InVain() {
		if m.followed == nil {
			m.followed = make(map[string]bool)
		}
		m.followed[op.Before.Follows] = true
	}
}

// endsBetweenParts: op was refused a part after another one had taken its CVM down. What that boots
// may never be let in: it is neither what was there before nor what was to be.
func endsBetweenParts(op *operation.Operation) bool {
	return op.EndedHalfDone() && op.Call.InVain()
}

// findMoved is the Operation, superseded or ended between two parts, whose call the admitted Boot of m
// has still to go by. One that was followed by another call is judged by that one.
// A Boot that still reports when its effect must have shown was not told anything.
func (w *world) findMoved(m *member, boot string) *operation.Operation {
	r := m.seen.Report
	for _, op := range m.superseded {
		shows := op.Call.IssuedAt.Add(w.t.Settle)
		if endsBetweenParts(op) {
			shows = op.Call.IssuedAt // the part before had shown when the one was asked for that was refused
		}
		lives := r != nil && r.BootID == boot && !r.ReceivedAt.Before(shows)
		if boot != "" && op.Before.BootID == boot && !m.followed[op.ID] && !lives {
			return op
		}
	}
	return nil
}

// follows is what the next Operation of m records about that: the open one that it
// re-targets is on the way to be superseded itself.
func (m *member) follows() string {
	switch {
	case m.open != nil && m.open.Way.Service == "" && m.seen.Admission != nil && m.open.Before.BootID == m.seen.Admission.BootID:
		return m.open.ID
	case m.moved != nil:
		return m.moved.ID
	}
	return ""
}
