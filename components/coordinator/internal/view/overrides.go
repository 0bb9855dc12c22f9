package view

import (
	"context"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// Overridden is an override with the parts of its key.
type Overridden struct {
	Kind  store.OverrideKind
	Scope string
	// Group that the override concerns; "": all groups.
	Group string
	Rec[store.Override]
}

// readOverrides counts an override as set while its key exists, regardless of the value. So a plain
// KV edit is enough to stop everything.
func (v *View) readOverrides(ctx context.Context, at moment, errs *[]error) {
	v.Overrides = map[store.OverrideKind]map[string]Rec[store.Override]{}
	for _, kind := range store.OverrideKinds() {
		readable, out := keyed[store.Override](ctx, at, kind.Prefix(), errs), map[string]Rec[store.Override]{}
		for _, e := range at.below(kind.Prefix()) {
			out[strings.TrimPrefix(e.Key, kind.Prefix())] = Rec[store.Override]{Value: readable[e.Key].Value, Index: e.Index}
		}
		v.Overrides[kind] = out
	}
}

// AllOverrides lists the overrides in any order, including expired ones. It leaves out an override
// whose scope is no valid Slot name.
func (v *View) AllOverrides() (out []Overridden) {
	for kind, scopes := range v.Overrides {
		for scope, o := range scopes {
			if name, ok := kind.Group(scope); ok {
				out = append(out, Overridden{kind, scope, name, o})
			}
		}
	}
	return out
}

// RolloutOver reports that the rollout of an override of a hold is over, or that one began since an override without.
// Such an override exempts nothing, and if a rollout is opened again, the override is not in force again (R141).
func (v *View) RolloutOver(o Overridden) bool {
	if o.Kind != store.OverrideHold {
		return false
	}
	current := ""
	if all := v.RolloutsOf(o.Group); len(all) > 0 {
		current = rollout.CurrentRollout(&all[0].Value)
	}
	return current != o.Value.Rollout
}

// InEffect returns the override of a kind and scope if it is in effect at now.
func (v *View) InEffect(kind store.OverrideKind, scope string, now time.Time) (o store.Override, ok bool) {
	rec, ok := v.Overrides[kind][scope]
	return rec.Value, ok && v.Stands(rec.Value, now)
}

// ExcludedFrom returns the activities from which an operator's override excludes a Slot at now.
func (v *View) ExcludedFrom(slot string, now time.Time) group.Exclusion {
	o, ok := v.InEffect(store.OverrideExclude, slot, now)
	if !ok {
		return group.Exclusion{}
	}
	return group.ExclusionOf(o.From)
}
