package group

import (
	"fmt"
	"slices"
)

// skipped returns the ordinals below the last one for which the spec has no Slot. Validation
// rejects an entry that names no Slot of the group, and such an entry skips none.
func (s Spec) skipped() []int {
	var out []int
	for _, slot := range s.Without {
		if name, ordinal, err := ParseSlot(slot); err == nil && name == s.Name {
			out = append(out, ordinal)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Ordinals returns the ordinals of the group's Slots, in order: the first Replicas ordinals that
// Without does not name. An entry beyond the last ordinal skips none. Every ordinal is below
// MaxReplicas, also for a spec that was not validated.
func (s Spec) Ordinals() []int {
	last := s.lastOrdinal()
	out := make([]int, 0, last+1)
	skipped := s.skipped()
	for n := range last + 1 {
		if len(skipped) > 0 && skipped[0] == n {
			skipped = skipped[1:]
			continue
		}
		out = append(out, n)
	}
	return out
}

// HasOrdinal reports whether the group is to have the Slot of an ordinal.
func (s Spec) HasOrdinal(ordinal int) bool {
	before, is := slices.BinarySearch(s.skipped(), ordinal)
	return !is && ordinal >= 0 && ordinal < MaxReplicas && ordinal-before < s.Replicas
}

// lastOrdinal is the highest one, -1 of a group without any. It counts without a list, since
// validation asks for it before a wrong Replicas was refused.
func (s Spec) lastOrdinal() int {
	if s.Replicas <= 0 {
		return -1
	}
	last := min(s.Replicas, MaxReplicas) - 1
	for _, n := range s.skipped() {
		if n > last {
			break
		}
		last++
	}
	return min(last, MaxReplicas-1)
}

func (v *validator) without(s Spec) {
	seen := map[string]bool{}
	for i, slot := range s.Without {
		path := fmt.Sprintf("without[%d]", i)
		name, _, err := ParseSlot(slot)
		switch {
		case err != nil:
			v.add(path, "", "%v", err)
		case name != s.Name:
			v.add(path, "", "%q is no slot of group %s: its slots are %s, %s, ...", slot, s.Name, SlotName(s.Name, 0), SlotName(s.Name, 1))
		case seen[slot]:
			v.add(path, "", "%q stands twice: keep one", slot)
		}
		seen[slot] = true
	}
	if n := len(s.Without); s.Replicas <= MaxReplicas && s.Replicas+n > MaxReplicas {
		v.add("without", "", "%d slots and %d that are left out are %d, at most %d: ordinals stay below that", s.Replicas, n, s.Replicas+n, MaxReplicas)
	}
}
