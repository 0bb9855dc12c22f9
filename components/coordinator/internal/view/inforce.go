package view

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// Accepted is the last spec of a group that the leader judged fit, as it recorded it.
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

// InForce is the spec that a group is run by: the last one that the leader accepted,
// whatever is stored since. A stored one alone is not: whether it may be in force is
// more than the document tells, so only its judge, the leader, brings it into force.
// Before the first is accepted nothing of the group exists, and a valid stored one
// tells what it is to be. index is the highest index of the records that it may come
// from. ok is false when there is none.
func (v *View) InForce(name string) (spec group.Spec, index uint64, ok bool) {
	stored, exists := v.Specs[name]
	accepted, known := v.Accepted[name]
	index = max(stored.Index, accepted.Index)
	if !known && exists && stored.Err == nil {
		return stored.Value, index, true
	}
	return accepted.Value, index, known
}

// SpecsAsked are the specs that groups are run by or are asked to be run by, by name:
// first what is in force, then what is stored, valid and another one.
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

// Before are the specs in force of all groups, also in a View of one group, whose names a
// spec must not take that was stored at index. What was never accepted, and was stored later,
// is not among them: of two new groups that want one name the first one gets it.
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

// readAccepted reads the accepted specs. One that this version cannot make sense of any more is as good
// as none. What it would refuse in a new one alone does not count, nor what a newer lint says of its content.
func (v *View) readAccepted(ctx context.Context, at moment, errs *[]error) {
	v.Accepted = map[string]Accepted{}
	for name, rec := range collect(ctx, at, store.GroupsPrefix, errs, func(a store.AcceptedSpec) string { return a.Group }) {
		// Found valid once, it is valid for as long as this process judges it.
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
