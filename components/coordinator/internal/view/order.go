package view

import (
	"cmp"
	"maps"
	"slices"

	"cadre.dev/core/operation"
)

// Records are never ordered by time. A leader with a fast clock could write a record that stays the
// newest for long, and its successor would plan from the past again and again.

// OperationsOf lists a Slot's Operations, newest first. Do not change the result.
func (v *View) OperationsOf(slot string) []Rec[operation.Operation] {
	if v.bySlot != nil {
		return v.bySlot[slot]
	}
	return bySlot(v.Operations)[slot]
}

// bySlot returns the Operations of each Slot, newest first.
func bySlot(all map[string]Rec[operation.Operation]) map[string][]Rec[operation.Operation] {
	// Operations are large: each list is allocated once, with its final length.
	counts := map[string]int{}
	for _, o := range all {
		counts[o.Value.Slot]++
	}
	out := make(map[string][]Rec[operation.Operation], len(counts))
	for _, o := range all {
		of, begun := out[o.Value.Slot]
		if !begun {
			of = make([]Rec[operation.Operation], 0, counts[o.Value.Slot])
		}
		out[o.Value.Slot] = append(of, o)
	}
	for _, of := range out {
		slices.SortFunc(of, func(a, b Rec[operation.Operation]) int { return newer(b, a) })
	}
	return out
}

// newer is positive when a is the later of two Operations of one Slot. A Slot has one Operation at
// a time, so an open one is the last. Of two ended ones the later was written under a higher Term,
// or at a higher index. The Term comes first because an import gives records new indices.
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

// Limits of the history that decisions use and the sweep keeps.
const (
	// keptPerSlot is how many ended Operations of a Slot are kept, and how many of those of the
	// current rollout. The next decision needs only the latest ones.
	keptPerSlot = 8
	// keptGone is how many are kept of a Slot without a record.
	keptGone = 3
)

// Past splits the ended Operations of a Slot, newest first, into counts and others. An Operation
// counts if it is among the newest, or if it belongs to the rollout.
// Of the rollout, every Operation that moved leadership counts, because these are counted (R53).
// The others are hidden from decisions and removed. Do not change the records behind the pointers.
func (v *View) Past(slot, rollout string) (counts, others []*Rec[operation.Operation]) {
	all, recent, ofRollout, moved := keptPerSlot, 0, 0, 0
	if _, recorded := v.Slots[slot]; !recorded {
		all = keptGone
	}
	of := v.OperationsOf(slot)
	for n := range of {
		o := &of[n]
		if !o.Value.Phase.Ended() {
			continue
		}
		recent++
		keep := recent <= all
		if o.Value.Rollout == rollout && rollout != "" {
			ofRollout++
			keep = keep || ofRollout <= all
			if t := o.Value.Transfer; t != nil && t.Made {
				moved++
				keep = keep || moved <= all
			}
		}
		if keep {
			counts = append(counts, o)
		} else {
			others = append(others, o)
		}
	}
	return counts, others
}

// SlotsWithOperations lists the Slots that have Operations, including removed Slots.
func (v *View) SlotsWithOperations() []string {
	by := v.bySlot
	if by == nil {
		by = bySlot(v.Operations)
	}
	return slices.Sorted(maps.Keys(by))
}

// RolloutsOf lists a group's rollouts, newest first. A target of a higher generation is later. A
// leader may have died between two records; then the superseded rollout is the older one.
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
