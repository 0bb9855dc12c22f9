package policy

import (
	"strings"
)

// Boot is a boot that asks a key service for its keys, as the key service verified its evidence. All
// fields are lower-case hex.
type Boot struct {
	AppID, InstanceID, ComposeHash string
	// KeyProviderID is the id of the key service that asks.
	KeyProviderID string
}

// BootSlot is a Slot whose app a Boot names.
type BootSlot struct {
	// Policy has the revocations and the accepted floor of its group (Revoking, AtLeast).
	Policy SlotPolicy
	// Making: an open Operation makes another CVM for the Slot, so that a Boot of an unbound instance
	// may be its first.
	Making bool
}

// MayBoot decides whether a key service may give a Boot the keys of its app and of its disk. slots
// are all Slots with the app of b. It allows a boot that an admission could let in at this moment: a compose
// hash that the Slot of the instance allows, which is neither revoked, below the floor nor unapproved.
// An instance without a Slot gets the keys only where a Slot waits for its first instance. The key
// service, and not MayBoot, proves the OS image and the machine.
func MayBoot(slots []BootSlot, b Boot) Decision {
	hash := normalHash(b.ComposeHash)
	switch {
	case !isHex(b.AppID, 40):
		return deny(CodeBadRequest, "app_id: %.80q is not 40 hex digits", b.AppID)
	case !isHex(b.InstanceID, 40):
		return deny(CodeInstanceMismatch, "instance_id: %.80q is not 40 hex digits: only an instance with an id gets keys", b.InstanceID)
	case hash == "":
		return deny(CodeBadRequest, "compose_hash: %.80q is not 64 hex digits", b.ComposeHash)
	}
	candidates, bound := slotsOf(slots, b)
	if len(slots) == 0 {
		return deny(CodeSlotUnknown, "no slot of this cluster has app %s", b.AppID)
	}
	if len(candidates) == 0 {
		return deny(CodeInstanceMismatch, "instance %s is bound to no slot of app %s, and no slot waits for its first instance", b.InstanceID, b.AppID)
	}
	refusal := deny(CodeRevisionNotAllowed, "compose hash %.16s is allowed for no slot that waits for its first instance", hash)
	if bound {
		refusal = deny(CodeRevisionNotAllowed, "compose hash %.16s is not allowed for slot %s now", hash, candidates[0].Slot)
	}
	for _, sp := range candidates {
		d, known := sp.mayBoot(b, hash)
		if d.Allowed {
			return d
		}
		if known {
			refusal = d
		}
	}
	return refusal
}

// slotsOf returns the policies by which b is judged: that of the Slot to which its instance is bound,
// else those of the Slots that wait for an instance.
func slotsOf(slots []BootSlot, b Boot) (out []SlotPolicy, bound bool) {
	for _, s := range slots {
		switch own := s.Policy.InstanceID; {
		case !strings.EqualFold(s.Policy.AppID, b.AppID):
		case strings.EqualFold(own, b.InstanceID):
			return []SlotPolicy{s.Policy}, true
		case own == "" || s.Making:
			out = append(out, s.Policy)
		}
	}
	return out, false
}

// mayBoot judges b by one Slot. known: the refusal is about the Slot's own Revision or about the
// instance, and says more than that no Revision has the hash.
func (sp SlotPolicy) mayBoot(b Boot, hash string) (d Decision, known bool) {
	if d := revokedBoot(sp, Claims{InstanceID: b.InstanceID, KeyProviderID: b.KeyProviderID}); d.Code != "" {
		return d, true
	}
	for i := len(sp.Allowed) - 1; i >= 0; i-- {
		a := sp.Allowed[i]
		if a.Revision == "" || normalHash(a.ComposeHash) != hash {
			continue
		}
		one := barred(sp, a)
		if one.Code == "" {
			return Decision{Allowed: true, Revision: a.Revision}, true
		}
		if d.Code == "" {
			d = one
		}
	}
	return d, d.Code != ""
}
