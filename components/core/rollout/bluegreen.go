package rollout

import (
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// A group without state may want another CVM, with an empty disk, for each member of a rollout (R15b). Its extra
// members go first. They are made like every new member, and updated in place, because a platform makes a CVM only at
// content that a CVM of the app already had. Once one of them has proven the target, the other members are replaced,
// within the budget. An operator's request for a Slot updates the Slot in place.

// rollKind is the Kind of the rollout's step of m.
func (w *world) rollKind(m *member) operation.Kind {
	// A CVM that a step made is new already.
	if m.open == nil && w.renews(m) {
		return operation.Replace
	}
	return operation.Update
}

// renews: the rollout gives m another CVM.
func (w *world) renews(m *member) bool {
	renews := w.spec.UpdatePolicy.MinimalAction == group.ActionReplace && !m.extra && !m.asked(RequestUpdate)
	// A member that never was available has nothing to lose, and no extra member would come to prove the target for it.
	// A pin and a change of the Slot's own settings concern a single Slot.
	return renews && m.record.WasAvailableAt != "" && m.want.revision == w.target && m.runs() != w.target
}

// holdsOfUnproven: no CVM is given up for a Revision at which no member serves.
func (w *world) holdsOfUnproven(c candidate, _ evaluation) []Hold {
	if w.tally.proven {
		return nil
	}
	return []Hold{hold(HoldTargetUnproven, "minimal_action is %s: %s is replaced once an extra slot is available at the target", group.ActionReplace, c.m.slot)}
}
