package policy

import (
	"fmt"
	"time"
)

// MaxContestedChanges is how often a contested Slot changes its holder without an
// Operation until it is reserved.
const MaxContestedChanges = 3

// Contest records Boots that take a Slot from each other. It is a part of the Slot's Admission and
// is written with it, so it is as durable and as consistent across coordinators as the record of
// the holder. An Operation that exchanges the Boot resets it, an operator's `clear-conflict` resets
// it, and an eviction removes it with the Admission.
//
// Two copies of a machine (IDN-03) and one machine that crashes repeatedly look alike in one
// respect: the Slot changes its holder without an Operation. They differ in the old Boot. A Boot's
// key lives in memory, so a crashed machine has lost it: its old Boot sends nothing after the
// crash. Two copies are both alive. Cadre therefore counts every change of holder, and a change
// alone reserves nothing. The contest needs one sign, since the last Operation or clearing, that
// two Boots were alive at the same time:
//
//   - a former holder sends under its own key after another Boot took the Slot
//     (the former holder was paused or cut off, and came back), or
//   - the holder sends well after another Boot asked for the Slot.
//
// With the sign, the Slot is reserved for its holder after MaxContestedChanges changes: no other
// Boot takes it. Without the sign, a member that crashes is admitted each time.
//
// Limit: a host can kill one copy before it boots the other one, in turn. Cadre takes that for a
// machine that crashes, because it does not compare disks. At any time one holder is live.
type Contest struct {
	// Changes of holder in a row that no Operation ordered.
	Changes int `json:"changes,omitempty"`
	// Rival is the Boot that was seen alive at the same time as the holder, first at RivalAt.
	Rival   string    `json:"rival_boot_id,omitempty"`
	RivalAt time.Time `json:"rival_at,omitzero"`
	// ReservedAt is since when the Slot is reserved for its holder; zero: it is not.
	ReservedAt time.Time `json:"reserved_at,omitzero"`
}

// Reserved reports whether no other Boot may take the Slot.
func (c Contest) Reserved() bool { return !c.ReservedAt.IsZero() }

// Changed is the Contest after another Boot took the Slot at a moment: by an
// Operation that ordered it, or not.
func (c Contest) Changed(ordered bool, at time.Time) Contest {
	if ordered {
		return Contest{}
	}
	c.Changes++
	return c.judged(at)
}

// Met returns the Contest after rival was seen alive at the same time as the holder. Only the first
// sign counts.
func (c Contest) Met(rival string, at time.Time) Contest {
	if c.Rival == "" {
		c.Rival, c.RivalAt = rival, at.UTC()
	}
	return c.judged(at)
}

func (c Contest) judged(at time.Time) Contest {
	if !c.Reserved() && c.Rival != "" && c.Changes >= MaxContestedChanges {
		c.ReservedAt = at.UTC()
	}
	return c
}

// Why states the conflict of a reserved Slot and the way out; "" without a conflict.
func (c Contest) Why(slot string) string {
	if !c.Reserved() {
		return ""
	}
	return fmt.Sprintf("the slot changed its holder %d times without an operation while two boots of its instance were alive (boot %.12s was seen at the same time as a holder): "+
		"it is reserved for the present one until `cadre admission clear-conflict %s` or a restart by Cadre", c.Changes, c.Rival, slot)
}

// CameBack reports whether a Boot that sends now held the Slot before a and lost it to another
// Boot, without a decision of the cluster. d are the Slot's decisions; a Boot that is missing there
// never held the Slot.
func CameBack(d Decisions, a Admission, bootID string) bool {
	if a.BootID == "" || a.BootID == bootID {
		return false
	}
	for i := len(d.Entries) - 1; i >= 0; i-- {
		if e := d.Entries[i]; e.BootID == bootID && (e.What == DecidedAdmit || e.What == DecidedEvict) {
			return e.What == DecidedAdmit
		}
	}
	return false
}

// BothAlive reports whether a holder that is live at now was live after another Boot asked for the
// Slot at asked. A Boot counts as live for the time fresh after its last message, so a Boot that
// has just died still counts.
func BothAlive(asked, now time.Time, fresh time.Duration) bool {
	return !asked.IsZero() && now.Sub(asked) > fresh
}
