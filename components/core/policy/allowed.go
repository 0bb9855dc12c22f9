package policy

import "slices"

// maxAllowed bounds what one Slot may run at a time.
const maxAllowed = 4

// Moving is sp while a step moves its Slot from a Revision to another: a Boot of that one will be let
// in, as the newest, and what the Slot runs until then stays allowed.
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

// Resting is sp while no step of its Slot is open: it may run what it was given last, and what its
// Boot was admitted at.
func (sp SlotPolicy) Resting(assigned, running string) SlotPolicy {
	sp.Allowed = slices.DeleteFunc(slices.Clone(sp.Allowed), func(a AllowedRevision) bool {
		return a.Revision != assigned && a.Revision != running
	})
	return sp
}
