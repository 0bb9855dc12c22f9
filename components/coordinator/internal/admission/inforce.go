package admission

import (
	"context"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// unrevoked pass while no revocation of the Boot of a, or of what it runs, is written.
// They are in each transaction that gives a Boot something, so that a revocation is in
// force at the next one on every coordinator, whether or not a leader or a View has
// seen it (ATT-31).
func unrevoked(a policy.Admission) []store.Op {
	var ops []store.Op
	for _, name := range policy.RevokedAs(a.InstanceID, a.Revision, a.Claims) {
		// A name that is no key can only be read, and is: by lastLook.
		if key := store.RevocationKey(name); store.CheckKey(key) == nil {
			ops = append(ops, store.Op{Kind: store.OpCheckAbsent, Key: key})
		}
	}
	return ops
}

// underAccepted is sp with the floor that the leader accepted for its group, which it may
// not have written to each Slot's policy yet, and the check that it is still that one.
func underAccepted(sp policy.SlotPolicy, v *view.View) (policy.SlotPolicy, store.Op) {
	key := store.GroupPolicyKey(sp.Group)
	accepted := v.Gate.Groups[sp.Group]
	sp.Floor = max(sp.Floor, accepted.Value.Floor.Number)
	index := accepted.Index
	for _, bad := range v.Bad {
		if bad.Key == key {
			// It says nothing now; what the Slot's policy took over from it holds.
			index = bad.Index
		}
	}
	if index == 0 {
		return sp, store.Op{Kind: store.OpCheckAbsent, Key: key}
	}
	return sp, store.Op{Kind: store.OpCheckIndex, Key: key, Index: index}
}

// lastLook refuses a Boot that was revoked in a spelling that the transaction could not
// check for, before it is given anything. A leader ends its admission.
func (a *attempt) lastLook(ctx context.Context) *refusal {
	revoked, err := view.Revocations(ctx, a.store)
	if err != nil {
		return refuse(codeGate, "%v", err).later()
	}
	if d := policy.Barred(a.admission, a.policy.Revoking(revoked)); d.Code != "" {
		return refuse(d.Code, "%s", d.Message)
	}
	return nil
}
