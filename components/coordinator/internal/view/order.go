package view

import (
	"cmp"
	"slices"

	"cadre.dev/core/operation"
)

// Order of records. Never by time: what a leader wrote whose clock was ahead would stay
// the newest for as long as that, and a successor would plan from the past, again and again.

// OperationsOf lists a Slot's Operations, newest first. Do not change the result.
func (v *View) OperationsOf(slot string) []Rec[operation.Operation] {
	if v.bySlot != nil {
		return v.bySlot[slot]
	}
	return bySlot(v.Operations)[slot]
}

// bySlot are the Operations of each Slot, newest first.
func bySlot(all map[string]Rec[operation.Operation]) map[string][]Rec[operation.Operation] {
	out := map[string][]Rec[operation.Operation]{}
	for _, o := range all {
		out[o.Value.Slot] = append(out[o.Value.Slot], o)
	}
	for _, of := range out {
		slices.SortFunc(of, func(a, b Rec[operation.Operation]) int { return newer(b, a) })
	}
	return out
}

// newer is positive when a is the later one of two Operations of one Slot. A Slot has one
// at a time, so the open one is the last, and of the ended ones that which was written
// last: under a higher Term, or at a higher index. The index alone would do, were it not
// for records that were exported and imported.
func newer(a, b Rec[operation.Operation]) int {
	open := func(o Rec[operation.Operation]) int {
		if o.Value.Phase.Ended() {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(open(a), open(b)),
		cmp.Compare(a.Value.Term, b.Value.Term),
		cmp.Compare(a.Index, b.Index),
		cmp.Compare(a.Value.Order, b.Value.Order),
		cmp.Compare(a.Value.ID, b.Value.ID),
	)
}

// RolloutsOf lists a group's rollouts, newest first: a target of a higher generation is a
// later one, and where a leader died between two records, what is superseded is the older.
func (v *View) RolloutsOf(name string) []Rec[operation.Rollout] {
	var out []Rec[operation.Rollout]
	for _, r := range v.Rollouts {
		if r.Value.Group == name {
			out = append(out, r)
		}
	}
	current := func(r Rec[operation.Rollout]) int {
		if r.Value.State == operation.SupersededState {
			return 0
		}
		return 1
	}
	slices.SortFunc(out, func(a, b Rec[operation.Rollout]) int {
		return cmp.Or(
			cmp.Compare(b.Value.Generation, a.Value.Generation),
			cmp.Compare(current(b), current(a)),
			cmp.Compare(b.Value.Term, a.Value.Term),
			cmp.Compare(b.Index, a.Index),
			cmp.Compare(b.Value.ID, a.Value.ID),
		)
	})
	return out
}
