package observe

import (
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// mark is what an operator set on a Slot; nil: nothing. Whether its time is over the planner
// judges, by the clock that the end is of.
func mark(v *view.View, kind store.MarkKind, slot string) *rollout.Mark {
	m, ok := v.Marks[kind][slot]
	if !ok {
		return nil
	}
	out := &rollout.Mark{Reason: m.Value.Reason, By: m.Value.By, Until: v.End(m.Value)}
	if kind == store.MarkExclude {
		out.Excludes = group.ExclusionOf(m.Value.From)
	}
	return out
}

// freeze is the one that holds the group the longest, of the two that it may have: that of all
// groups where both end together, as it is lifted last.
func freeze(v *view.View, name string) (frozen bool, why rollout.Mark) {
	if f, ok := v.Freezes[name]; ok {
		frozen, why = true, rollout.Mark{Reason: f.Value.Reason, By: f.Value.By, Until: v.End(f.Value.Mark()), Group: name}
	}
	if v.Freeze == nil {
		return frozen, why
	}
	all := v.Freeze.Value
	until := v.End(all.Mark())
	if shorter := !until.IsZero() && (why.Until.IsZero() || why.Until.After(until)); frozen && shorter {
		return frozen, why
	}
	return true, rollout.Mark{Reason: all.Reason, By: all.By, Until: until}
}
