package observe

import (
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// mark is what an operator set on a Slot; nil: nothing. Whether its time is over the planner
// judges, by its own clock.
func mark(of map[string]view.Rec[store.SlotMark], slot string) *rollout.Mark {
	m, ok := of[slot]
	if !ok {
		return nil
	}
	return &rollout.Mark{Reason: m.Value.Reason, By: m.Value.By, Until: m.Value.Until}
}

// freeze is the one that holds the group now: that of all groups first, as it is lifted last.
func freeze(v *view.View, name string, now time.Time) (frozen bool, why rollout.Mark) {
	stands := func(f store.Freeze) bool { return f.Until.IsZero() || now.Before(f.Until) }
	if f := v.Freeze; f != nil && stands(*f) {
		return true, rollout.Mark{Reason: f.Reason, By: f.By, Until: f.Until}
	}
	if f, ok := v.Freezes[name]; ok && stands(f.Value) {
		return true, rollout.Mark{Reason: f.Value.Reason, By: f.Value.By, Until: f.Value.Until, Group: name}
	}
	return false, rollout.Mark{}
}
