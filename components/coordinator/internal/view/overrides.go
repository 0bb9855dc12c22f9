package view

import (
	"context"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// Overridden is an override with what its key says.
type Overridden struct {
	Kind  store.OverrideKind
	Scope string
	// Group that it concerns; "": all groups.
	Group string
	Rec[store.Override]
}

// readOverrides: an override is on while its key exists, whatever is written there.
// An operator who stops everything with a plain KV edit gets what was asked for.
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

// AllOverrides lists the overrides, also those whose time is over, in any order. An override of a
// Slot whose name no Slot has is left out.
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

// InEffect is the override of a kind about scope that stands at a moment.
func (v *View) InEffect(kind store.OverrideKind, scope string, now time.Time) (o store.Override, ok bool) {
	rec, ok := v.Overrides[kind][scope]
	return rec.Value, ok && v.Stands(rec.Value, now)
}

// ExcludedFrom is what an operator's override leaves a Slot out of at a moment.
func (v *View) ExcludedFrom(slot string, now time.Time) group.Exclusion {
	o, ok := v.InEffect(store.OverrideExclude, slot, now)
	if !ok {
		return group.Exclusion{}
	}
	return group.ExclusionOf(o.From)
}
