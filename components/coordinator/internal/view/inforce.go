package view

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// Accepted is the last spec of a group that the leader accepted, as recorded.
type Accepted struct {
	// Value is normalised and valid.
	Value group.Spec
	// SpecIndex is the index that the stored spec had then.
	SpecIndex uint64
	// By and Request are the caller and the request that wrote it; By is empty in a record of an older version.
	By, Request string
	// Index of the record itself.
	Index uint64
}

// InForce returns the spec that a group runs under: the last accepted spec, even after another spec
// was stored. Only the leader brings a stored spec into force, because the document alone does not
// show whether it is acceptable. Before the first acceptance the group has nothing else, and a
// valid stored spec shows its plan. index is the highest index of the records behind spec. ok is
// false when there is no such spec.
func (v *View) InForce(name string) (spec group.Spec, index uint64, ok bool) {
	stored, exists := v.Specs[name]
	accepted, known := v.Accepted[name]
	index = max(stored.Index, accepted.Index)
	if !known && exists && stored.Err == nil {
		return stored.Value, index, true
	}
	return accepted.Value, index, known
}

// SpecsAsked returns by group the spec in force, followed by the stored spec when that is valid and
// different.
func (v *View) SpecsAsked() map[string][]group.Spec {
	out := map[string][]group.Spec{}
	for _, name := range v.Known() {
		spec, _, ok := v.InForce(name)
		if ok {
			out[name] = append(out[name], spec)
		}
		stored, exists := v.Specs[name]
		if exists && stored.Err == nil && stored.Index != v.Accepted[name].SpecIndex {
			out[name] = append(out[name], stored.Value)
		}
	}
	return out
}

// SpecsInForce returns the specs in force by group.
func (v *View) SpecsInForce() map[string]group.Spec {
	out := map[string]group.Spec{}
	for _, name := range v.Known() {
		if spec, _, ok := v.InForce(name); ok {
			out[name] = spec
		}
	}
	return out
}

// Before returns the specs in force, of all groups, whose names a spec stored at index must not
// take. It works in a View of one group too. A spec that was stored later and never accepted is
// left out: of two new groups that want one name, the earlier gets it.
func (v *View) Before(index uint64) map[string]group.Spec {
	all := v
	if v.others != nil {
		all = v.others
	}
	out := all.SpecsInForce()
	for name := range out {
		if _, accepted := all.Accepted[name]; !accepted && all.Specs[name].Index > index {
			delete(out, name)
		}
	}
	return out
}

// AfterUpTo returns by group the groups that it is `after`: by its newest valid spec that was stored up to index, or
// else by the spec in force. Of two edits that make a cycle together, the later edit makes it. The specs of one
// transaction have one index, and are judged by each other.
func (v *View) AfterUpTo(index uint64) map[string][]string {
	all, out := v.All(), map[string][]string{}
	for _, name := range all.Known() {
		spec, _, _ := all.InForce(name)
		if stored, ok := all.Specs[name]; ok && stored.Err == nil && stored.Index <= index {
			spec = stored.Value
		}
		if len(spec.After) > 0 {
			out[name] = spec.After
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

// readAccepted reads the accepted specs. A spec that this version cannot decode counts as missing.
// A rule for new specs and a newer lint of the content do not apply here.
func (v *View) readAccepted(ctx context.Context, at moment, errs *[]error) {
	v.Accepted = map[string]Accepted{}
	for name, rec := range collect(ctx, at, store.GroupsPrefix, errs, func(a store.AcceptedSpec) string { return a.Group }) {
		// A spec that was valid once stays valid for the life of this process.
		entry := store.Entry{Key: store.GroupAcceptedKey(name), Value: rec.Value.Spec}
		spec, known := recall[group.Spec](at.known, entry)
		var err error
		if !known {
			spec, err = decodeSpec(rec.Value.Spec, name, group.ValidateAccepted)
		}
		if err != nil {
			*errs = append(*errs, &store.RecordError{Key: store.GroupAcceptedKey(name), Index: rec.Index, Err: fmt.Errorf("spec: %w", err)})
			continue
		}
		if !known {
			remember(at.known, entry, spec)
		}
		v.Accepted[name] = Accepted{Value: spec, SpecIndex: rec.Value.SpecIndex, By: rec.Value.By, Request: rec.Value.Request, Index: rec.Index}
	}
}
