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

// known has the last readable records behind the membership, by Slot. In a rolling upgrade an older
// coordinator meets records with fields that it does not know, and cannot read them. Without these
// members, it would close their Sessions all over the cluster during the upgrade.
//
// A writer of these keys gains nothing by damaging a record, compared to its deletion or the
// restoration of an earlier value. An unreadable record never adds a member, and revocations and
// the floor still apply. Once the key is deleted, or another Boot holds the Slot's lease, the
// member is removed.
type known struct {
	slots      map[string]group.SlotRecord
	admissions map[string]policy.Admission
	policies   map[string]policy.SlotPolicy
}

// update takes the records of the groups of scope from v. An unreadable record keeps its last
// readable value.
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
		if lease := v.Boots[slot]; !read && lease.Leased() && lease.BootID != a.BootID {
			// Another Boot took the Slot with a record that only newer coordinators can read. The
			// old Boot must not return when the new Boot's lease ends.
			delete(k.admissions, slot)
		}
	}
}

// take copies the records in read into cached, for the groups of scope. take removes a missing
// record from cached unless the record exists and is unreadable.
func take[T any](v *view.View, scope Scope, cached map[string]T, read map[string]view.Rec[T], groupOf func(T) string, key func(slot string, was T) string) {
	for slot, was := range cached {
		if _, there := read[slot]; !there && scope.has(groupOf(was)) && !v.Unreadable(key(slot, was)) {
			delete(cached, slot)
		}
	}
	for slot, rec := range read {
		if scope.has(groupOf(rec.Value)) {
			cached[slot] = rec.Value
		}
	}
}

// members returns the Slots of the groups of scope whose Boots may be in peer maps, by group,
// sorted by Slot.
func (k *known) members(v *view.View, scope Scope) map[string][]peering.Member {
	out := map[string][]peering.Member{}
	for slot, a := range k.admissions {
		record, ok := k.slots[slot]
		if !ok || record.InstanceID != a.InstanceID || !scope.has(record.Group) {
			continue
		}
		if v.Unfit(a, k.policyOf(slot, a)).Code != "" {
			// Revoked or below the floor: every coordinator excludes the member, even before a
			// leader evicts it.
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

// policyOf returns the Slot's policy. If this coordinator never read one, the data of the Admission
// serves as the policy, so that revocations match.
func (k known) policyOf(slot string, a policy.Admission) policy.SlotPolicy {
	if sp, ok := k.policies[slot]; ok {
		return sp
	}
	return policy.SlotPolicy{
		Group: a.Group, Slot: slot, AppID: a.AppID, InstanceID: a.InstanceID,
		Allowed: []policy.AllowedRevision{{Revision: a.Revision, ComposeHash: a.Claims.ComposeHash}},
	}
}
