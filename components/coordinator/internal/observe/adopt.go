package observe

import (
	"context"
	"strings"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/address"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
)

// Adoptable judges every member of the group that no record binds: whether the CVM with the
// member's name can be adopted, and the reason if it cannot.
func Adoptable(v *view.View, spec group.Spec, cluster string, listing Listing, images policy.ImagePolicy, now time.Time) []rollout.Adoptable {
	folded, _ := v.FoldGroup(spec, now)
	facts := rollout.AdoptionFacts{
		Spec: spec, AppID: spec.AppID, Revisions: map[string]group.RevisionRecord{}, Policy: folded, Revoked: v.Gate.Revocations, Images: images, VIPs: map[string]string{}, Addresses: map[string]address.Given{},
	}
	for digest, r := range v.Revisions {
		if r.Value.Group == spec.Name {
			facts.Revisions[digest] = r.Value
		}
	}
	for slot, record := range v.Slots {
		if bound := record.Value.InstanceID != ""; record.Value.Group != spec.Name || bound {
			facts.VIPs[slot] = record.Value.VIP
		}
		if record.Value.Group == spec.Name && facts.AppID == "" {
			facts.AppID = record.Value.AppID
		}
	}
	for other, rec := range v.Addresses {
		if other != spec.Name {
			facts.Addresses[other] = rec.Value
		}
	}
	asked := map[string]bool{}
	for _, m := range v.Adoptions[spec.Name].Value.Members {
		asked[m.Slot] = true
	}
	var out []rollout.Adoptable
	for _, ordinal := range spec.Ordinals() {
		one := facts
		one.Record = v.Slots[group.SlotName(spec.Name, ordinal)].Value
		if one.Record.Slot == "" {
			one.Record = group.SlotRecord{Group: spec.Name, Slot: group.SlotName(spec.Name, ordinal), Ordinal: ordinal}
		}
		if one.Record.PlatformName == "" {
			one.Record.PlatformName = cluster + "-" + one.Record.Slot
		}
		one.Bound = v.Policies[one.Record.Slot].Value.InstanceID != ""
		if op, open := v.OpenOperation(one.Record.Slot); open {
			one.Open = &op.Value
		}
		found, duplicates := instances(one.Record, listing)
		one.Instance, one.Duplicates = found, len(duplicates)
		if p, ok := v.Proofs[one.Record.Slot]; ok {
			one.Proof = &p.Value
		}
		if a, ok := rollout.Adoption(one, now); ok {
			if err := listing.Lacks(); err != nil {
				a.Missing = "the platform did not answer: " + err.Error()
			}
			a.Asked = asked[a.Slot]
			out = append(out, a)
		}
	}
	return out
}

// unboundAge is the maximum age of the platform's list for the question of an unauthenticated
// caller. The age bounds the platform calls that such callers cause.
const unboundAge = 10 * time.Second

// Unbound finds the Slot whose records are lost and that the platform's name of the instance's CVM
// refers to. Unbound calls the platform only while there is such a Slot.
func (p *Platform) Unbound(ctx context.Context, v *view.View, cluster, instanceID string) (groupName, slot string, ok bool) {
	lost := func(slot string) bool {
		record := v.Slots[slot].Value
		if v.Policies[slot].Value.InstanceID != "" || record.InstanceID != "" && record.InstanceID != instanceID {
			return false
		}
		_, open := v.OpenOperation(slot)
		return !open
	}
	names := map[string]string{}
	for name, spec := range v.SpecsInForce() {
		for _, member := range spec.Members() {
			if lost(member) {
				names[cluster+"-"+member] = name
			}
		}
	}
	if len(names) == 0 {
		return "", "", false
	}
	listing := p.List(ctx, "", unboundAge)
	seen := map[string]int{}
	for _, i := range listing.Instances {
		seen[i.Name]++
		if name, is := names[i.Name]; is && i.InstanceID == instanceID {
			groupName, slot, ok = name, strings.TrimPrefix(i.Name, cluster+"-"), true
		}
	}
	return groupName, slot, ok && listing.Lacks() == nil && seen[cluster+"-"+slot] == 1
}
