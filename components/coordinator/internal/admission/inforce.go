package admission

import (
	"context"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// unrevoked returns checks that pass while the Boot of a and its measurements are not revoked. Each
// transaction that gives a Boot something includes them. A revocation thus takes effect at the next
// such transaction on every coordinator, even before a leader or a View has seen it (ATT-31).
func unrevoked(a policy.Admission) []store.Op {
	var ops []store.Op
	for _, name := range policy.RevokedAs(a.InstanceID, a.Revision, a.Claims) {
		// A transaction cannot check a name that is no valid key; checkRevoked reads it instead.
		if key := store.RevocationKey(name); store.CheckKey(key) == nil {
			ops = append(ops, store.Op{Kind: store.OpCheckAbsent, Key: key})
		}
	}
	return ops
}

// underAccepted returns sp with the accepted floor of its group, which the leader may not have
// written to each Slot's policy yet. The returned Op checks that the accepted policy has not
// changed.
func underAccepted(sp policy.SlotPolicy, v *view.View) (policy.SlotPolicy, store.Op) {
	key := store.GroupPolicyKey(sp.Group)
	accepted := v.Gate.Groups[sp.Group]
	sp = sp.AtLeast(accepted.Value)
	index := accepted.Index
	for _, bad := range v.Bad {
		if bad.Key == key {
			// The unreadable record adds nothing; the floor in the Slot's policy still holds.
			index = bad.Index
		}
	}
	if index == 0 {
		return sp, store.Op{Kind: store.OpCheckAbsent, Key: key}
	}
	return sp, store.Op{Kind: store.OpCheckIndex, Key: key, Index: index}
}

// checkRevoked refuses a Boot whose revocation has a spelling that the transaction could not check,
// before the Boot receives anything. A leader ends its admission.
func (a *attempt) checkRevoked(ctx context.Context) *refusal {
	revoked, err := view.Revocations(ctx, a.store)
	if err != nil {
		return refuse(codeUnreadable, "%v", err).later()
	}
	if d := policy.Barred(a.admission, a.policy.Revoking(revoked)); d.Code != "" {
		return refuse(d.Code, "%s", d.Message)
	}
	return nil
}
