package control

import (
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

// next is what v says, and for each record that exists and cannot be read what it
// said before.
func (k known) next(v *view.View) known {
	out := known{
		slots:      latest(v, k.slots, v.Slots, func(slot string, was group.SlotRecord) string { return store.SlotKey(was.Group, slot) }),
		admissions: latest(v, k.admissions, v.Admissions, func(slot string, _ policy.Admission) string { return store.AdmissionKey(slot) }),
		policies:   latest(v, k.policies, v.Policies, func(slot string, _ policy.SlotPolicy) string { return store.SlotPolicyKey(slot) }),
	}
	for slot, a := range out.admissions {
		_, read := v.Admissions[slot]
		if held := v.Boots[slot]; !read && held.Held() && held.BootID != a.BootID {
			// Another Boot took the Slot, by a record that only newer coordinators read. This
			// one must not come back when that one's lease ends.
			delete(out.admissions, slot)
		}
	}
	return out
}

// latest takes what was read now, and what was read before of those that exist and
// cannot be read.
func latest[T any](v *view.View, before map[string]T, read map[string]view.Rec[T], key func(slot string, was T) string) map[string]T {
	out := make(map[string]T, len(read))
	for slot, was := range before {
		if v.Unreadable(key(slot, was)) {
			out[slot] = was
		}
	}
	for slot, rec := range read {
		out[slot] = rec.Value
	}
	return out
}

// members are the Slots whose Boots the others may know.
func (k known) members(v *view.View) []peering.Member {
	var out []peering.Member
	for slot, a := range k.admissions {
		record, ok := k.slots[slot]
		if !ok || record.InstanceID != a.InstanceID {
			continue
		}
		if v.Unfit(a, k.policyOf(slot, a)).Code != "" {
			// Revoked or below the floor: every coordinator leaves it out by itself, whether or
			// not a leader evicts it.
			continue
		}
		out = append(out, peering.Member{
			Group: record.Group, Slot: slot, VIP: record.VIP, AppID: a.AppID, InstanceID: a.InstanceID, BootID: a.BootID,
		})
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
