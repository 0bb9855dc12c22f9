package observe

import (
	"strings"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// override returns the override that an operator set on a scope, a Slot or a group; nil: there is
// none. The planner decides whether its time is over, because the end refers to the planner's
// clock.
func override(v *view.View, kind store.OverrideKind, scope string) *rollout.Override {
	m, ok := v.Overrides[kind][scope]
	if !ok {
		return nil
	}
	out := &rollout.Override{Reason: m.Value.Reason, By: m.Value.By, Until: v.End(m.Value), State: m.Value.State, Ticket: m.Value.Ticket, Rollout: m.Value.Rollout}
	if kind == store.OverrideExclude {
		out.Excludes = group.ExclusionOf(m.Value.From)
	}
	return out
}

// gates returns the settings of the gates that the spec has.
func gates(v *view.View, spec group.Spec) map[string]*rollout.Override {
	var out map[string]*rollout.Override
	for scope := range v.Overrides[store.OverrideGate] {
		of, gate, _, ok := store.GateScope(scope)
		if _, has := spec.Gate(gate); !ok || of != spec.Name || !has {
			continue
		}
		if out == nil {
			out = map[string]*rollout.Override{}
		}
		out[strings.TrimPrefix(scope, of+"/")] = override(v, store.OverrideGate, scope)
	}
	return out
}

// holdOverrides returns the overrides of holds of a group. One without a reason, or for a longer time than the API
// gives, was not made as the rules demand (R141), and overrides nothing.
func holdOverrides(v *view.View, name string) map[string]*rollout.Override {
	var out map[string]*rollout.Override
	for scope, o := range v.Overrides[store.OverrideHold] {
		of, hold, ok := store.HoldScope(scope)
		if long := o.Value.At.IsZero() || o.Value.Until.Sub(o.Value.At) > rollout.MaxHoldOverride; !ok || of != name || long || strings.TrimSpace(o.Value.Reason) == "" {
			continue
		}
		if out == nil {
			out = map[string]*rollout.Override{}
		}
		out[hold] = override(v, store.OverrideHold, scope)
	}
	return out
}

// freeze returns the freeze that ends last, of the group's own one and that of all groups. If both
// end at the same time, it returns that of all groups.
func freeze(v *view.View, name string) *rollout.Override {
	one, all := override(v, store.OverrideFreeze, name), override(v, store.OverrideFreeze, store.Everywhere)
	if one != nil {
		one.Group = name
	}
	switch {
	case one == nil:
		return all
	case all == nil, !all.Until.IsZero() && (one.Until.IsZero() || one.Until.After(all.Until)):
		return one
	}
	return all
}
