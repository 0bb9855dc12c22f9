package group

import (
	"fmt"
	"slices"
)

// first returns the ordinal of the first Slot, also of a spec that was not validated.
func (s Spec) first() int { return clamp(s.FirstOrdinal, 0, MaxReplicas) }

// skipped returns the ordinals from the first one on for which the spec has no Slot. Validation
// rejects an entry that names no Slot of the group, and such an entry skips none.
func (s Spec) skipped() []int {
	var out []int
	for _, slot := range s.Without {
		if name, ordinal, err := ParseSlot(slot); err == nil && name == s.Name && ordinal >= s.first() {
			out = append(out, ordinal)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Ordinals returns the ordinals of the group's Slots, in order: the first Replicas ordinals from
// FirstOrdinal on that Without does not name. An entry beyond the last ordinal skips none. Every ordinal is below
// MaxReplicas, also for a spec that was not validated.
func (s Spec) Ordinals() []int {
	last := s.lastOrdinal()
	out := make([]int, 0, max(last-s.first()+1, 0))
	skipped := s.skipped()
	for n := s.first(); n <= last; n++ {
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
	return !is && ordinal >= s.first() && ordinal < MaxReplicas && ordinal-s.first()-before < s.Replicas
}

// lastOrdinal is the highest one, -1 of a group without any. It counts without a list, since
// validation asks for it before a wrong Replicas was refused.
func (s Spec) lastOrdinal() int {
	if s.Replicas <= 0 {
		return -1
	}
	last := s.first() + min(s.Replicas, MaxReplicas) - 1
	for _, n := range s.skipped() {
		if n > last {
			break
		}
		last++
	}
	return min(last, MaxReplicas-1)
}

// ordinals bounds the ordinals of the group, those of the extra Slots of a rollout too.
func (v *validator) ordinals(s Spec) {
	left, extra := len(s.skipped()), MaxSurge(s)
	switch end := s.first() + s.Replicas + left + extra; {
	case s.FirstOrdinal < 0 || s.FirstOrdinal >= MaxReplicas:
		v.add("first_ordinal", "R110", "is %d: must be 0 to %d", s.FirstOrdinal, MaxReplicas-1)
	case s.FirstOrdinal > 0 && s.Replicas > 0 && s.Replicas+left+extra <= MaxReplicas && end > MaxReplicas:
		v.add("first_ordinal", "R110", "is %d: with %d slots, %d that are left out and %d extra ones, ordinals would reach %d; at most %d", s.FirstOrdinal, s.Replicas, left, extra, end-1, MaxReplicas-s.Replicas-left-extra)
	}
	first, limit := s.first(), s.lastOrdinal()+1
	switch p := s.UpdatePolicy.Partition; {
	case p < 0 || p > limit:
		v.add("update_policy.partition", "R94", "is %d: must be 0 to %d, one more than the last ordinal", p, limit)
	case p > 0 && p <= first:
		v.add("update_policy.partition", "R94", "is %d and keeps no slot, since the first ordinal is %d: use 0, or %d to %d", p, first, first+1, limit)
	}
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
