package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// holds joins the holds of all slots by group and name, with the message of the first slot.
func holds(slots []group.InstanceStatus) []Hold {
	out := []Hold{}
	for _, s := range slots {
		for _, h := range s.Holds {
			i := slices.IndexFunc(out, func(x Hold) bool { return x.Group == s.Group && x.Hold == h.Predicate })
			if i < 0 {
				out = append(out, Hold{Group: s.Group, Hold: h.Predicate, Message: h.Message})
				i = len(out) - 1
			}
			out[i].Slots = append(out[i].Slots, s.Slot)
		}
	}
	slices.SortStableFunc(out, func(a, b Hold) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Hold, b.Hold))
	})
	return out
}

// holdsForPeople end with an operator's decision alone. Other holds end without one, or are the
// effect of an override, or come with a finding about the rollout, the group or the slot.
var holdsForPeople = map[string]Severity{
	rollout.HoldCallUndecided: Page, rollout.HoldHealStorm: Page,
	rollout.HoldLeaderNeedsApproval: Ticket, rollout.HoldStagePromotion: Ticket, rollout.HoldVersionStep: Ticket, rollout.HoldIrreversible: Ticket, rollout.HoldNotApproved: Ticket, rollout.HoldSecretNoValue: Ticket, rollout.HoldDeleteDisks: Ticket, rollout.HoldInstanceMissing: Ticket,
	rollout.HoldDuplicate: Ticket, rollout.HoldReplaced: Ticket, rollout.HoldPreservedState: Ticket, rollout.HoldUnmanagedInstance: Ticket,
	rollout.HoldNotAMember: Ticket, rollout.HoldNoSource: Ticket, rollout.HoldAppID: Ticket, rollout.HoldActionNotAllowed: Ticket,
	rollout.HoldInterruption: Ticket, rollout.HoldBelowFloor: Ticket, rollout.HoldRevoked: Ticket, rollout.HoldVoterScaleIn: Ticket, rollout.HoldRefused: Ticket,
}

func ofHolds(list []Hold) (out []Finding) {
	for _, h := range list {
		if severity, is := holdsForPeople[h.Hold]; is {
			f := finding(severity, h.Group, fmt.Sprintf("the next step of %s waits for you: %s: %s", some(h.Slots), h.Hold, h.Message), "cadre rollout plan "+h.Group)
			f.Hold = h.Hold
			out = append(out, f)
		}
	}
	return out
}

// some names at most three slots.
func some(slots []string) string {
	if len(slots) <= 3 {
		return strings.Join(slots, ", ")
	}
	return fmt.Sprintf("%s and %d more slots", slots[0], len(slots)-1)
}
