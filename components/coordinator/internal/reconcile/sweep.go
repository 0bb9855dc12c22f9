package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Retention of old records, and the pace of their removal.
const (
	// A sweep reads all records, so it is rare.
	sweepEvery = 10 * time.Minute
	// nonceKept: a spent nonce is useless once its exchange has expired. The margin covers clocks
	// that differ.
	nonceKept = 10 * time.Minute
	// goneKept is how long the last Operations of a removed Slot are kept.
	goneKept = 30 * 24 * time.Hour
	// sweepAbove is how far the number of Operations may exceed the retained number before a sweep
	// starts at once: every coordinator reads them all.
	sweepAbove = 500
	// rolloutsKept is how many rollouts a group keeps.
	rolloutsKept = 20
	// revisionKept is the lowest age at which a Revision is removed.
	revisionKept = time.Hour
	sweepBatch   = 30
)

// sweep removes records that are no longer needed.
func (r *Reconciler) sweep(ctx context.Context, lease store.Lease) error {
	if r.Halted() != "" {
		return nil // the loss of records must be found first, and the remaining records may help
	}
	if err := r.trimAudit(ctx, lease); err != nil {
		return err
	}
	v, err := view.Read(ctx, r.cfg.Store)
	if err != nil {
		return err
	}
	v.CountFrom(r.cfg.Watermark.Zero)
	r.sweepTokens(ctx)
	if err := r.strayOperators(ctx); err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("operators' tokens without a record not swept", "error", err)
	}
	ops := slices.Concat(r.oldNonces(v), r.oldOperations(v), oldStates(v), r.goneSlots(ctx, v), r.strayRequests(v), r.endedOverrides(v), r.oldAddresses(v, lease.Term()))
	rollouts := oldRollouts(v)
	ops = append(ops, rollouts...)
	if len(rollouts) == 0 {
		// One kind after the other: a Revision goes when no record names it any more, and its
		// document goes after it.
		revisions := r.oldRevisions(v)
		if ops = append(ops, revisions...); len(revisions) == 0 {
			documents, err := r.oldDocuments(ctx, v)
			if err != nil {
				return err
			}
			ops = append(ops, documents...)
		}
	}
	return r.remove(ctx, lease, ops)
}

func (r *Reconciler) remove(ctx context.Context, lease store.Lease, ops []store.Op) error {
	for batch := range slices.Chunk(ops, sweepBatch) {
		if err := r.cfg.Store.Commit(ctx, append(lease.Fence(), batch...)...); err != nil {
			return err
		}
	}
	return nil
}

// sweepTokens removes policies that no token carries, and logs any token that never expires
// (TOK-02). The next sweep retries a failed removal.
func (r *Reconciler) sweepTokens(ctx context.Context) {
	swept, err := r.cfg.Tokens.Sweep(ctx)
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("consul policies not swept", "error", err)
	}
	if len(swept.Unbounded) > 0 {
		r.cfg.Log.Error("consul has tokens that never end; delete them", "accessors", swept.Unbounded)
	}
}

// strayOperators deletes the tokens of operators whose record is gone: it was deleted by plain KV, or
// the removal ended between the two. An unreadable record may name any token, so then all stay.
func (r *Reconciler) strayOperators(ctx context.Context) error {
	n, err := r.cfg.Tokens.StrayOperators(ctx, func(ctx context.Context) (map[string]bool, error) {
		records, _, err := store.ReadAll[store.OperatorRecord](ctx, r.cfg.Store, store.OperatorRecordsPrefix)
		recorded := map[string]bool{}
		for _, one := range records {
			for _, accessor := range one.Value.Accessors() {
				recorded[accessor] = true
			}
		}
		return recorded, err
	})
	if n > 0 && err == nil {
		r.cfg.Log.Info("tokens of removed operators deleted", "tokens", n)
	}
	return err
}

func (r *Reconciler) oldNonces(v *view.View) []store.Op {
	var ops []store.Op
	for key, nonce := range v.Nonces {
		if r.cfg.Now().Sub(nonce.Value.ExpiresAt) > nonceKept {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: key, Index: nonce.Index})
		}
	}
	return ops
}

// oldOperations are the ended Operations that no decision needs any more, and the last Operations
// of Slots that went long ago.
func (r *Reconciler) oldOperations(v *view.View) []store.Op {
	var ops []store.Op
	remove := func(all ...*view.Rec[operation.Operation]) {
		for _, o := range all {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.OperationKey(o.Value.ID), Index: o.Index})
		}
	}
	current := map[string]string{}
	for _, slot := range v.SlotsWithOperations() {
		name := v.OperationsOf(slot)[0].Value.Group
		if _, looked := current[name]; !looked {
			current[name] = ""
			if newest := v.RolloutsOf(name); len(newest) > 0 {
				current[name] = newest[0].Value.ID
			}
		}
		counts, others := v.Past(slot, current[name])
		remove(others...)
		if _, recorded := v.Slots[slot]; recorded {
			continue
		}
		for _, o := range counts {
			if r.cfg.Now().Sub(o.Value.Times.Ended) > goneKept {
				remove(o)
			}
		}
	}
	return ops
}

// crowded reports whether there are so many Operations that the sweep starts at once.
func crowded(v *view.View) bool { return len(v.Operations) > sweepAbove+30*len(v.Slots) }

// oldRollouts are the rollouts beyond the newest of each group.
func oldRollouts(v *view.View) []store.Op {
	groups := map[string]bool{}
	for _, r := range v.Rollouts {
		groups[r.Value.Group] = true
	}
	var ops []store.Op
	for name := range groups {
		all := v.RolloutsOf(name)
		for _, r := range all[min(rolloutsKept, len(all)):] {
			if r.Value.ID != v.Statuses[name].Value.Rollout {
				ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.RolloutKey(r.Value.ID), Index: r.Index})
			}
		}
	}
	return ops
}

// oldStates are the states of Slots of unknown groups. The next pass of a known group removes that
// group's old states.
func oldStates(v *view.View) []store.Op {
	known := v.Known()
	var ops []store.Op
	for slot, i := range v.Instances {
		if !slices.Contains(known, i.Value.Group) {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.SlotStatusKey(i.Value.Group, slot), Index: i.Index})
		}
	}
	return ops
}

// oldRevisions are the Revisions that no rollout, Slot, policy, status or open Operation names.
// They are the largest records. An unreadable record may name any of them, so then all stay.
func (r *Reconciler) oldRevisions(v *view.View) []store.Op {
	if len(v.Bad) > 0 {
		return nil
	}
	used := v.RevisionsNamed()
	var ops []store.Op
	for digest, rev := range v.Revisions {
		if !used[digest] && r.cfg.Now().Sub(rev.Value.CreatedAt) > revisionKept {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.RevisionKey(digest), Index: rev.Index})
		}
	}
	return ops
}

// oldDocuments are the documents whose hash no Revision, policy or admission names. A young
// document stays, since a policy that is about to be written may name it.
func (r *Reconciler) oldDocuments(ctx context.Context, v *view.View) ([]store.Op, error) {
	if len(v.Bad) > 0 {
		return nil, nil
	}
	used := map[string]bool{}
	for _, rev := range v.Revisions {
		used[rev.Value.ComposeHash] = true
	}
	for _, p := range v.Policies {
		for _, a := range p.Value.Allowed {
			used[a.ComposeHash] = true
		}
	}
	for _, a := range v.Admissions {
		used[a.Value.Claims.ComposeHash] = true
	}
	entries, _, err := r.cfg.Store.List(ctx, store.AppComposePrefix)
	if err != nil {
		return nil, fmt.Errorf("list documents: %w", err)
	}
	var ops []store.Op
	for _, e := range entries {
		hash := strings.TrimPrefix(e.Key, store.AppComposePrefix)
		var document policy.Document
		// An unreadable document is of no use; it is written again when needed.
		if err := json.Unmarshal(e.Value, &document); used[hash] || err == nil && r.cfg.Now().Sub(document.CreatedAt) <= revisionKept {
			continue
		}
		ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: e.Key, Index: e.Index})
	}
	return ops, nil
}
