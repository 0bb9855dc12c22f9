package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// counted is an override as it is stored.
type counted struct {
	key string
	// group that it is about; "": all.
	group string
	view.Rec[store.Override]
}

// overrides are those of Slots, of groups and of all groups.
func overrides(v *view.View) (out []counted) {
	for _, kind := range store.GroupOverrides() {
		for scope, o := range v.Overrides[kind] {
			owner := scope
			if scope == store.Everywhere {
				owner = ""
			}
			out = append(out, counted{store.OverrideKey(kind, scope), owner, o})
		}
	}
	for _, kind := range store.SlotOverrides() {
		for slot, o := range v.Overrides[kind] {
			if owner, _, err := group.ParseSlot(slot); err == nil { // else no Slot has such a name
				out = append(out, counted{store.OverrideKey(kind, slot), owner, o})
			}
		}
	}
	return out
}

// countEnds writes, for each override with an end that no leader saw yet, the elapsed time at which it
// ends. From then on no leader's clock can end it early: neither the clock of the coordinator that set the override,
// nor that of any leader has to be right.
func (p *pass) countEnds(ctx context.Context) (changed bool, err error) {
	var w puts
	elapsed := p.cfg.Ratchet.Elapsed(p.view.Elapsed)
	for _, o := range overrides(p.view) {
		if o.Value.Until.IsZero() || o.Value.EndElapsed != 0 || o.group != "" && o.group != p.name {
			continue
		}
		o.Value.EndElapsed = elapsed + uint64(o.Value.Length(p.now)/time.Millisecond) + 1 // not a fraction early
		w.add(store.Put(o.key, o.Value, o.Index))
	}
	if w.err != nil {
		return false, w.err
	}
	for batch := range store.Batches(p.lease.Fence(), w.ops) {
		err := p.commit(ctx, batch...)
		if errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrFenced) {
			return true, nil // the pass of another group wrote it, or an operator did
		}
		if err != nil {
			return changed, fmt.Errorf("record when overrides end: %w", err)
		}
		changed = true
	}
	return changed, nil
}

// endedOverrides removes the overrides whose time is over.
func (r *Reconciler) endedOverrides(v *view.View) []store.Op {
	var ops []store.Op
	for _, o := range overrides(v) {
		if o.Value.EndElapsed != 0 && !v.Stands(o.Value, r.cfg.Now()) {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: o.key, Index: o.Index})
		}
	}
	return ops
}
