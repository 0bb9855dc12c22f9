package observe

import (
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// override is what an operator set on a Slot; nil: nothing. Whether its time is over the planner
// judges, by the clock that the end is of.
func override(v *view.View, kind store.OverrideKind, slot string) *rollout.Override {
	m, ok := v.Overrides[kind][slot]
	if !ok {
		return nil
	}
	out := &rollout.Override{Reason: m.Value.Reason, By: m.Value.By, Until: v.End(m.Value)}
	if kind == store.OverrideExclude {
		out.Excludes = group.ExclusionOf(m.Value.From)
	}
	return out
}

// freeze is the one that holds the group the longest, of the two that it may have: that of all
// groups where both end together, as it is lifted last.
func freeze(v *view.View, name string) (frozen bool, why rollout.Override) {
	if f, ok := v.Freezes[name]; ok {
		frozen, why = true, rollout.Override{Reason: f.Value.Reason, By: f.Value.By, Until: v.End(f.Value.Override()), Group: name}
	}
	if v.Freeze == nil {
		return frozen, why
	}
	all := v.Freeze.Value
	until := v.End(all.Override())
	if shorter := !until.IsZero() && (why.Until.IsZero() || why.Until.After(until)); frozen && shorter {
		return frozen, why
	}
	return true, rollout.Override{Reason: all.Reason, By: all.By, Until: until}
}
