package world

import (
	"context"
	"time"

	"cadre.dev/core/policy"
	"cadre.dev/simulator/plan"
	"cadre.dev/store"
)

// runs is the Revision that the group is to run; "": it is not to be.
func (w *World) runs(name string) string {
	spec, is := w.wanted()[name]
	if !is || w.ends(name) {
		return ""
	}
	return spec.Revision()
}

// raisesFloor has a person let nothing run any more in the group that is older than what it is to run. One that
// the leader has not numbered yet has no place in that order.
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

// revokes has a person take away for a while that what the group is to run may run.
func (w *World) revokes(ctx context.Context, f plan.Fault) {
	if revision := w.runs(f.Target); revision != "" {
		r := policy.Revocation{Kind: policy.RevokedRevision, ID: revision, Reason: "it may be bad", By: "operator", At: time.Now()}
		w.sets(ctx, f.For, store.RevocationKey(r.Name()), r)
	}
}

// withdraws has a person take an approval back, and give it again after a while.
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
