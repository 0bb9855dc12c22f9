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

// counted is a switch that has an end, as it is stored.
type counted struct {
	key string
	// group that it is about; "": all.
	group    string
	override store.Override
	index    uint64
	// ending writes the record with its end in elapsed time.
	ending func(elapsed uint64) (store.Op, error)
}

// switches are those of Slots, of groups and of all groups that may have an end.
func switches(v *view.View) (out []counted) {
	for kind, overrides := range v.Overrides {
		for slot, m := range overrides {
			owner, _, err := group.ParseSlot(slot)
			if err != nil {
				continue // no Slot has such a name
			}
			key := store.OverrideKey(kind, slot)
			out = append(out, counted{key, owner, m.Value, m.Index, func(elapsed uint64) (store.Op, error) {
				m.Value.EndElapsed = elapsed
				return store.Put(key, m.Value, m.Index)
			}})
		}
	}
	freeze := func(key, of string, f view.Rec[store.Freeze]) {
		out = append(out, counted{key, of, f.Value.Override(), f.Index, func(elapsed uint64) (store.Op, error) {
			f.Value.EndElapsed = elapsed
			return store.Put(key, f.Value, f.Index)
		}})
	}
	for name, f := range v.Freezes {
		freeze(store.GroupFreezeKey(name), name, f)
	}
	if v.Freeze != nil {
		freeze(store.FreezeKey(), "", *v.Freeze)
	}
	return out
}

// countEnds writes, for each switch with an end that no leader saw yet, the elapsed time at which it
// ends. From then on no leader's clock can end it early: neither the clock of the coordinator that set the switch,
// nor that of any leader has to be right.
func (p *pass) countEnds(ctx context.Context) (changed bool, err error) {
	var w puts
	elapsed := p.cfg.Ratchet.Elapsed(p.view.Elapsed)
	for _, s := range switches(p.view) {
		if s.override.Until.IsZero() || s.override.EndElapsed != 0 || s.group != "" && s.group != p.name {
			continue
		}
		w.add(s.ending(elapsed + uint64(s.override.Length(p.now)/time.Millisecond) + 1)) // not a fraction early
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
			return changed, fmt.Errorf("record when switches end: %w", err)
		}
		changed = true
	}
	return changed, nil
}

// endedOverrides removes the switches whose time is over.
func (r *Reconciler) endedOverrides(v *view.View) []store.Op {
	var ops []store.Op
	for _, s := range switches(v) {
		if s.override.EndElapsed != 0 && !v.Stands(s.override, r.cfg.Now()) {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: s.key, Index: s.index})
		}
	}
	return ops
}
