package rollout

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// text is the operator, the reason and the end of the override, for a message.
func (k Override) text() string {
	out := ""
	if k.By != "" {
		out += " (" + k.By + ")"
	}
	if k.Reason != "" {
		out += ": " + k.Reason
	}
	if !k.Until.IsZero() {
		out += ", until " + k.Until.UTC().Format(time.RFC3339)
	}
	return out
}

// hold returns a Hold by the override; format has one %s for the override's details.
func (k Override) hold(predicate, format string) Hold {
	return holdUntil(k.Until, predicate, format, k.text())
}

// The status reports this form of the override.
func (k *Override) status() *group.Override {
	if k == nil {
		return nil
	}
	return &group.Override{From: k.Excludes.Words(), Reason: k.Reason, By: k.By, Until: k.Until}
}

// scope returns the argument of `cadre unfreeze` that lifts the override.
func (k Override) scope() string {
	if k.Group == "" {
		return ""
	}
	return " " + k.Group
}

// ended: the override's time is over.
func (k *Override) ended(now time.Time) bool {
	return k != nil && !k.Until.IsZero() && !now.Before(k.Until)
}

// stands: k exists and is in force.
func (k *Override) stands(now time.Time) bool { return k != nil && !k.ended(now) }

// dropEnded removes expired overrides from the observation. Their records may still exist.
func (w *world) dropEnded(overrides []**Override) {
	for _, override := range overrides {
		if (*override).ended(w.now) {
			*override = nil
		}
	}
}

// excluded returns the exclusion in force for the Slot of an ordinal, or nil.
func (w *world) excluded(ordinal int) *Override {
	if o := w.seenAt(ordinal); o != nil && o.Exclusion.stands(w.now) {
		return o.Exclusion
	}
	return nil
}

// excludedFrom returns the kinds of work that the Slot's override withholds.
func (w *world) excludedFrom(ordinal int) group.Exclusion {
	if k := w.excluded(ordinal); k != nil {
		return k.Excludes
	}
	return group.Exclusion{}
}

// keptBy returns the rule that keeps the Slot of an ordinal from the target: the spec, or an operator's override. No
// rule for its ordinal keeps an extra Slot: it is the first at the target.
func (w *world) keptBy(ordinal int) string {
	by := w.spec.KeptBy(ordinal, w.excludedFrom(ordinal))
	if by != "" && by != group.KeptByPartition && !w.spec.HasOrdinal(ordinal) {
		return ""
	}
	return by
}

// unhealed: the Slot of m is not repaired automatically.
func (w *world) unhealed(m *member) bool {
	return w.spec.Unhealed(m.ordinal, w.excludedFrom(m.ordinal))
}

// excludedText describes the override that excludes m, and how to withdraw it.
func (w *world) excludedText(m *member) string {
	k := w.excluded(m.ordinal)
	return fmt.Sprintf("%s is excluded from %s by an operator%s; to go on: cadre instance include %s", m.slot, strings.Join(k.Excludes.Words(), " and "), k.text(), m.slot)
}

// rests: m was taken out of service and stays out of service.
func (m *member) rests() bool {
	return m != nil && m.open != nil && (m.open.Kind == operation.Drain && m.open.Phase == operation.Drained || m.open.StaysStopped())
}

// notDrained: m was drained, but its present Boot could not be drained or leads again.
func (m *member) notDrained() bool {
	return m.rests() && m.open.Kind == operation.Drain && (m.open.NotDrained() || m.leads() || m.named)
}

// drained: an operator wants m out of service. No other step starts for m meanwhile.
func (m *member) drained() bool { return m.seen.Drain != nil }

// keptByHand: an operator's override keeps the rollout from m, and has no clock of its own.
func (m *member) keptByHand() bool { return m.drained() || m.seen.Protection != nil }

// repairsProtected: the drain does not hold this Action, because a protection holds the drain itself.
func (m *member) repairsProtected(kind operation.Kind, actor operation.Actor) bool {
	return m.seen.Protection != nil && kind == operation.Restart && actor == operation.ActorHealing
}

// holdsOfDrain holds other steps of m while an operator drains m.
func (w *world) holdsOfDrain(c candidate, _ evaluation) []Hold {
	d := c.m.seen.Drain
	if d == nil || w.ending() || c.m.repairsProtected(c.kind, c.actor) {
		return nil
	}
	return []Hold{d.hold(HoldDrained, fmt.Sprintf("%s was taken out of service by an operator%%s; to go on: cadre instance undrain %s", c.m.slot, c.m.slot))}
}

// undrained returns why m no longer needs to be out of service; empty while the drain stands.
func (w *world) undrained(m *member) string {
	switch {
	case w.ending():
		return "the group is being deleted"
	case !m.drained():
		return "undrained, or its time ended"
	}
	return ""
}

// holdsOfProtection holds each step that would take m away or cost its disk. A member known to be down is restarted on
// its disk anyway: that takes nothing away.
func (w *world) holdsOfProtection(c candidate, _ evaluation) []Hold {
	p := c.m.seen.Protection
	if p == nil {
		return nil
	}
	// Only a restart is a repair: an update would give the member another Revision.
	repair := c.kind == operation.Restart && c.condition != well && c.condition != lost
	if repair {
		return nil
	}
	return []Hold{p.hold(HoldProtected, fmt.Sprintf("%s is protected by an operator%%s; to go on: cadre instance unprotect %s", c.m.slot, c.m.slot))}
}
