package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"cadre.dev/core/audit"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

const (
	// auditKept is how many entries of the audit chain stay in Consul.
	auditKept = 10_000
	// auditBatch bounds the entries of one transaction.
	auditBatch = 25
)

// trimAudit writes the oldest entries beyond auditKept to the log and removes them. The end of the
// chain gets the last removed entry as its checkpoint in the same transaction. Entries that do not
// continue the checkpoint stay.
func (r *Reconciler) trimAudit(ctx context.Context, lease store.Lease) error {
	for ctx.Err() == nil {
		head, index, err := store.Read[audit.Head](ctx, r.cfg.Store, store.AuditHeadKey)
		switch {
		case errors.Is(err, store.ErrNotFound), len(store.RecordErrors(err)) > 0:
			return nil // the next act repairs it
		case err != nil:
			return fmt.Errorf("read the end of the audit chain: %w", err)
		case head.Last.Number < head.Checkpoint.Number, head.Kept() <= auditKept:
			return nil
		}
		ops, checkpoint, err := r.oldestEntries(ctx, head.Checkpoint, min(head.Kept()-auditKept, auditBatch))
		if err != nil {
			r.log.Error("the oldest entries of the audit chain stay", "code", policy.CodeAuditChainBroken, "error", err)
			return nil
		}
		head.Checkpoint = checkpoint
		put, err := store.Put(store.AuditHeadKey, head, index)
		if err != nil {
			return err
		}
		err = r.cfg.Store.Commit(ctx, append(append(lease.Fence(), ops...), put)...)
		if errors.Is(err, store.ErrFenced) || err != nil && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("remove old entries of the audit chain: %w", err)
		}
	}
	return context.Cause(ctx)
}

// oldestEntries logs the n entries after a checkpoint. It returns the Ops that remove them, and the
// next checkpoint.
func (r *Reconciler) oldestEntries(ctx context.Context, after audit.Point, n uint64) (ops []store.Op, next audit.Point, err error) {
	var keys []string
	for i := range n {
		keys = append(keys, store.AuditKey(after.Number+1+i))
	}
	entries, err := r.cfg.Store.Together(ctx, keys...)
	if err != nil {
		return nil, next, err
	}
	v := audit.After(after)
	var texts []string
	for _, entry := range entries {
		one, err := store.Decode[audit.Entry](entry)
		if err == nil {
			err = v.Next(one)
		}
		if err != nil {
			return nil, next, err
		}
		text, err := json.Marshal(one)
		if err != nil {
			return nil, next, err
		}
		texts = append(texts, string(text))
		ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: entry.Key, Index: entry.Index})
	}
	if uint64(len(ops)) != n {
		return nil, next, fmt.Errorf("%d of %d entries after entry %d are absent", n-uint64(len(ops)), n, after.Number)
	}
	for _, text := range texts {
		r.log.Info("old entry of the audit chain", "entry", text)
	}
	return ops, v.At(), nil
}
