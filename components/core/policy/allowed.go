package policy

import "slices"

// maxAllowed bounds the Revisions that one Slot may run at a time.
const maxAllowed = 4

// Moving returns sp during a step that moves its Slot to another Revision. The new Revision is
// allowed as the newest, and the Slot's present Revision stays allowed until the step ends.
func (sp SlotPolicy) Moving(from string, to AllowedRevision) SlotPolicy {
	sp.Allowed = slices.DeleteFunc(slices.Clone(sp.Allowed), func(a AllowedRevision) bool {
		folded := to
		folded.Number, folded.Approved = a.Number, a.Approved
		return a.Revision != from && a.Revision != to.Revision || a == folded
	})
	// The same Revision may have had another hash before the platform changed; the
	// Boot that runs it must stay renewable.
	sp.Allowed = append(sp.Allowed, to)
	if extra := len(sp.Allowed) - maxAllowed; extra > 0 {
		sp.Allowed = sp.Allowed[extra:]
	}
	return sp
}

// Settled returns sp without an open step of its Slot. Allowed are the assigned Revision, and the
// Revision at which its Boot was admitted.
func (sp SlotPolicy) Settled(assigned, running string) SlotPolicy {
	sp.Allowed = slices.DeleteFunc(slices.Clone(sp.Allowed), func(a AllowedRevision) bool {
		return a.Revision != assigned && a.Revision != running
	})
	return sp
}
