package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// countEnds writes the elapsed time at which an override ends, for each override whose end no leader
// has converted yet. From then on no leader's clock can end the override early. The clocks of the
// coordinator that set the override and of all leaders may be wrong.
func (p *pass) countEnds(ctx context.Context) (changed bool, err error) {
	var w puts
	elapsed := p.cfg.Watermark.Elapsed(p.view.Elapsed)
	for _, o := range p.view.AllOverrides() {
		if o.Value.Until.IsZero() || o.Value.EndElapsed != 0 || o.Group != "" && o.Group != p.name {
			continue
		}
		o.Value.EndElapsed = elapsed + uint64(o.Value.Length(p.now)/time.Millisecond) + 1 // not a fraction early
		w.add(store.Put(store.OverrideKey(o.Kind, o.Scope), o.Value, o.Index))
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

// endedOverrides removes the overrides whose time or whose rollout is over, and the settings of
// gates of Slots that do not exist.
func (r *Reconciler) endedOverrides(v *view.View) []store.Op {
	var ops []store.Op
	for _, o := range v.AllOverrides() {
		_, _, slot, _ := store.GateScope(o.Scope)
		_, exists := v.Slots[slot]
		stray := o.Kind == store.OverrideGate && slot != "" && !exists
		if stray || v.RolloutOver(o) || o.Value.EndElapsed != 0 && !v.Stands(o.Value, r.cfg.Now()) {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.OverrideKey(o.Kind, o.Scope), Index: o.Index})
		}
	}
	return ops
}
