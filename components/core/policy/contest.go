package policy

import (
	"fmt"
	"time"
)

// MaxContestedChanges is how often a contested Slot changes its holder without an
// Operation until it is held.
const MaxContestedChanges = 3

// Contest is what is remembered about Boots that take a Slot from each other. It
// stands in the Slot's Admission and is written with it, so it is as durable, and
// as single-minded across coordinators, as the answer to who the holder is. An
// Operation that exchanges the Boot begins it anew, so does an operator's release,
// and an eviction ends it with the Admission.
//
// Two copies of a machine (IDN-03) and one machine that crashes over and over
// look alike in one respect: the Slot changes its holder and nobody ordered it.
// They differ in what becomes of the old Boot. A Boot's key lives in memory, so a
// machine that crashed has lost it: its old Boot never speaks again, and is
// silent before the new one is there. Of copies both are alive. So a change of
// holder is counted always, but holds nothing by itself; what makes it a contest
// is one sign, since the last Operation or release, that two Boots were alive at
// one time:
//
//   - a former holder speaks under its own key after another Boot took the Slot
//     (it was paused or cut off, and came back), or
//   - the holder is heard from well after another Boot asked for the Slot.
//
// With the sign the Slot is held once it has changed MaxContestedChanges times:
// the holder stays, and no other Boot takes the Slot. Without it a member that
// crashes is let in each time, however often.
//
// What it cannot see: a host that never lets two copies live at one time, but kills
// the one before it boots the other, in turn. To Cadre that is a machine that
// crashes; that its disks differ, nothing here knows. There is one live holder
// at any time all the same.
type Contest struct {
	// Changes of holder in a row that no Operation ordered.
	Changes int `json:"changes,omitempty"`
	// Rival is the Boot that was seen alive beside the holder, at RivalAt first.
	Rival   string    `json:"rival_boot_id,omitempty"`
	RivalAt time.Time `json:"rival_at,omitzero"`
	// HeldAt is since when the Slot is held; zero: it is not.
	HeldAt time.Time `json:"held_at,omitzero"`
}

// Held reports whether no other Boot may take the Slot.
func (c Contest) Held() bool { return !c.HeldAt.IsZero() }

// Changed is the Contest after another Boot took the Slot at a moment: by an
// Operation that ordered it, or not.
func (c Contest) Changed(ordered bool, at time.Time) Contest {
	if ordered {
		return Contest{}
	}
	c.Changes++
	return c.judged(at)
}

// Met is the Contest after rival was seen alive beside the holder. Only the first
// one counts: a sign does not grow by repetition.
func (c Contest) Met(rival string, at time.Time) Contest {
	if c.Rival == "" {
		c.Rival, c.RivalAt = rival, at.UTC()
	}
	return c.judged(at)
}

func (c Contest) judged(at time.Time) Contest {
	if !c.Held() && c.Rival != "" && c.Changes >= MaxContestedChanges {
		c.HeldAt = at.UTC()
	}
	return c
}

// Why says what is wrong with a held Slot and the way out; "" if it is not held.
func (c Contest) Why(slot string) string {
	if !c.Held() {
		return ""
	}
	return fmt.Sprintf("the slot changed its holder %d times without an operation while two boots of its instance were alive (boot %.12s was seen beside a holder): "+
		"it is held for the present one until `cadre admission clear-conflict %s` or a restart by Cadre", c.Changes, c.Rival, slot)
}

// CameBack reports whether a Boot that speaks now was the holder before a and lost
// the Slot to another Boot, not by decision of the cluster. d are the Slot's
// decisions; a Boot that they do not know did not hold the Slot.
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

// BothAlive reports whether a holder that is live at now was so after another Boot
// asked for the Slot at asked. fresh is how long after its last word a Boot counts
// as live: one that died just before still does for so long.
func BothAlive(asked, now time.Time, fresh time.Duration) bool {
	return !asked.IsZero() && now.Sub(asked) > fresh
}
