package view

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// Accepted is the last valid spec of a group, as the leader recorded it.
type Accepted struct {
	// Value is normalised and valid.
	Value group.Spec
	// SpecIndex is the index that the stored spec had then.
	SpecIndex uint64
	// Index of the record itself.
	Index uint64
}

// InForce is the spec that a group is run by: the stored one, or the last valid
// one while the stored one is not valid or is gone. index is the highest index of
// the records that it may come from. ok is false when there is none.
func (v *View) InForce(name string) (spec group.Spec, index uint64, ok bool) {
	stored, exists := v.Specs[name]
	accepted, known := v.Accepted[name]
	index = max(stored.Index, accepted.Index)
	if exists && stored.Err == nil {
		return stored.Value, index, true
	}
	return accepted.Value, index, known
}

// SpecsInForce are the specs that groups are run by.
func (v *View) SpecsInForce() map[string]group.Spec {
	out := map[string]group.Spec{}
	for _, name := range v.Known() {
		if spec, _, ok := v.InForce(name); ok {
			out[name] = spec
		}
	}
	return out
}

// Known lists the groups that have a spec or had a valid one, sorted.
func (v *View) Known() []string {
	names := maps.Clone(v.Specs)
	if names == nil {
		names = map[string]Spec{}
	}
	for name := range v.Accepted {
		names[name] = Spec{}
	}
	return slices.Sorted(maps.Keys(names))
}

// readAccepted reads the accepted specs. One that this version does not find
// valid any more is as good as none.
func (v *View) readAccepted(ctx context.Context, at moment, errs *[]error) {
	v.Accepted = map[string]Accepted{}
	for name, rec := range collect(ctx, at, store.GroupsPrefix, errs, func(a store.AcceptedSpec) string { return a.Group }) {
		// Found valid once, it is valid for as long as this process judges it.
		entry := store.Entry{Key: store.GroupAcceptedKey(name), Value: rec.Value.Spec}
		spec, known := recall[group.Spec](at.known, entry)
		var err error
		if !known {
			spec, err = DecodeSpec(rec.Value.Spec, name)
		}
		if err != nil {
			*errs = append(*errs, &store.RecordError{Key: store.GroupAcceptedKey(name), Index: rec.Index, Err: fmt.Errorf("spec: %w", err)})
			continue
		}
		if !known {
			remember(at.known, entry, spec)
		}
		v.Accepted[name] = Accepted{Value: spec, SpecIndex: rec.Value.SpecIndex, Index: rec.Index}
	}
}
