package world

import (
	"context"
	"time"

	"cadre.dev/core/policy"
	"cadre.dev/simulator/plan"
	"cadre.dev/store"
)

// runs is the target Revision of the group; "": there is none.
func (w *World) runs(name string) string {
	spec, is := w.wanted()[name]
	if !is || w.ends(name) {
		return ""
	}
	return spec.Revision()
}

// raisesFloor makes an operator set the group's floor to its target Revision. A Revision that the
// leader has not numbered yet has no place in the order.
func (w *World) raisesFloor(ctx context.Context, name string) {
	stored, err := w.store.Get(ctx, store.GroupPolicyKey(name))
	revision := w.runs(name)
	if err != nil || revision == "" {
		return
	}
	gate := decode[policy.GroupPolicy](stored.Value)
	if n := gate.Order(revision); n > gate.Floor.Number {
		w.put(ctx, store.FloorKey(name), policy.Floor{Number: n, Reason: "older ones are known to be bad", By: "operator", At: time.Now()})
	}
}

// revokes makes an operator revoke the group's target Revision for a while.
func (w *World) revokes(ctx context.Context, f plan.Fault) {
	if revision := w.runs(f.Target); revision != "" {
		r := policy.Revocation{Kind: policy.RevokedRevision, ID: revision, Reason: "it may be bad", By: "operator", At: time.Now()}
		w.sets(ctx, f.For, store.RevocationKey(r.Name()), r)
	}
}

// withdraws makes an operator withdraw an approval, and give it again after a while.
func (w *World) withdraws(ctx context.Context, f plan.Fault) {
	revision := w.runs(f.Target)
	if revision == "" {
		return
	}
	key := store.ApprovalKey(revision)
	given, err := w.store.Get(ctx, key)
	if err != nil || w.store.Commit(ctx, store.Op{Kind: store.OpDelete, Key: key}) != nil {
		return
	}
	w.wait(ctx, f.For)
	_ = w.store.Commit(ctx, store.Op{Kind: store.OpPut, Key: key, Value: given.Value})
}
