package control

import (
	"cmp"
	"slices"

	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// known are the records that membership rests on, by Slot, as they could be read
// last. A coordinator that is replaced by a newer one meets records with fields that
// it does not know: it cannot read them, and leaving those members out would close
// their Sessions all over the cluster in the middle of an upgrade.
//
// Whoever can write these keys gains nothing by spoiling a record beyond what
// deleting it, or writing back what was read from it, gives: nobody becomes a member
// by a record that cannot be read, revocations and the floor bite all the same, and
// once the key is gone, or another Boot holds the Slot's lease, the member is gone.
type known struct {
	slots      map[string]group.SlotRecord
	admissions map[string]policy.Admission
	policies   map[string]policy.SlotPolicy
}

// update takes what v says of the groups of scope; of a record that exists and cannot be
// read it keeps what it said before.
func (k *known) update(v *view.View, scope Scope) {
	if k.slots == nil {
		*k = known{slots: map[string]group.SlotRecord{}, admissions: map[string]policy.Admission{}, policies: map[string]policy.SlotPolicy{}}
	}
	take(v, scope, k.slots, v.Slots, func(r group.SlotRecord) string { return r.Group },
		func(slot string, was group.SlotRecord) string { return store.SlotKey(was.Group, slot) })
	take(v, scope, k.policies, v.Policies, func(p policy.SlotPolicy) string { return p.Group },
		func(slot string, _ policy.SlotPolicy) string { return store.SlotPolicyKey(slot) })
	take(v, scope, k.admissions, v.Admissions, func(a policy.Admission) string { return a.Group },
		func(slot string, _ policy.Admission) string { return store.AdmissionKey(slot) })
	for slot, a := range k.admissions {
		_, read := v.Admissions[slot]
		if held := v.Boots[slot]; !read && held.Held() && held.BootID != a.BootID {
			// Another Boot took the Slot, by a record that only newer coordinators read. This
			// one must not come back when that one's lease ends.
			delete(k.admissions, slot)
		}
	}
}

// take puts what was read now into kept, for the groups of scope, and leaves of what was
// read before those that exist and cannot be read.
func take[T any](v *view.View, scope Scope, kept map[string]T, read map[string]view.Rec[T], groupOf func(T) string, key func(slot string, was T) string) {
	for slot, was := range kept {
		if _, there := read[slot]; !there && scope.has(groupOf(was)) && !v.Unreadable(key(slot, was)) {
			delete(kept, slot)
		}
	}
	for slot, rec := range read {
		if scope.has(groupOf(rec.Value)) {
			kept[slot] = rec.Value
		}
	}
}

// members are the Slots of the groups of scope whose Boots the others may know, by group,
// sorted by Slot.
func (k *known) members(v *view.View, scope Scope) map[string][]peering.Member {
	out := map[string][]peering.Member{}
	for slot, a := range k.admissions {
		record, ok := k.slots[slot]
		if !ok || record.InstanceID != a.InstanceID || !scope.has(record.Group) {
			continue
		}
		if v.Unfit(a, k.policyOf(slot, a)).Code != "" {
			// Revoked or below the floor: every coordinator leaves it out by itself, whether or
			// not a leader evicts it.
			continue
		}
		out[record.Group] = append(out[record.Group], peering.Member{
			Group: record.Group, Slot: slot, VIP: record.VIP, AppID: a.AppID, InstanceID: a.InstanceID, BootID: a.BootID,
		})
	}
	for _, members := range out {
		slices.SortFunc(members, func(a, b peering.Member) int { return cmp.Compare(a.Slot, b.Slot) })
	}
	return out
}

// policyOf is the Slot's policy. Without one that was ever read here, the Boot is
// judged by what its Admission says of itself: a revocation finds it by that.
func (k known) policyOf(slot string, a policy.Admission) policy.SlotPolicy {
	if sp, ok := k.policies[slot]; ok {
		return sp
	}
	return policy.SlotPolicy{
		Group: a.Group, Slot: slot, AppID: a.AppID, InstanceID: a.InstanceID,
		Allowed: []policy.AllowedRevision{{Revision: a.Revision, ComposeHash: a.Claims.ComposeHash}},
	}
}
