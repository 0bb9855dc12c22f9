package reconcile

import (
	"context"
	"fmt"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// settings returns the removals of the settings of some gates: those of whole gates, at most one for
// each, and those of steps of Slots, which may be more than one transaction holds.
func (p *pass) settings(of func(gate string) bool) (ofGroup, ofSlots []store.Op) {
	for scope, setting := range p.view.Overrides[store.OverrideGate] {
		name, gate, slot, ok := store.GateScope(scope)
		if !ok || name != p.name || !of(gate) {
			continue
		}
		op := store.Op{Kind: store.OpDeleteCAS, Key: store.OverrideKey(store.OverrideGate, scope), Index: setting.Index}
		if slot == "" {
			ofGroup = append(ofGroup, op)
		} else {
			ofSlots = append(ofSlots, op)
		}
	}
	return ofGroup, ofSlots
}

// leftGates are the settings of gates that leave with the spec, or become gates of another kind. They
// must not open a later gate of the same name. The setting of a whole gate goes in the transaction
// that accepts the spec, since a gate may be open without one. A setting of a Slot's step may go
// earlier, because a gate per Slot is closed without one.
func (p *pass) leftGates(next group.Spec) (ofGroup, ofSlots []store.Op) {
	before := p.view.Accepted[p.name].Value
	return p.settings(func(gate string) bool {
		was, had := before.Gate(gate)
		is, has := next.Gate(gate)
		return had && (!has || was.PerSlot() != is.PerSlot())
	})
}

// holdOverrides are the removals of the overrides of holds of the group.
func (p *pass) holdOverrides() (ops []store.Op) {
	for scope, override := range p.view.Overrides[store.OverrideHold] {
		if name, ok := store.OverrideHold.Group(scope); ok && name == p.name {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.OverrideKey(store.OverrideHold, scope), Index: override.Index})
		}
	}
	return ops
}

// removeSettings commits removals, each transaction with the given checks.
func (p *pass) removeSettings(ctx context.Context, ops []store.Op, checks ...store.Op) error {
	for batch := range store.Batches(append(p.lease.Fence(), checks...), ops) {
		if err := p.commit(ctx, append(batch, checks...)...); err != nil {
			return fmt.Errorf("remove the settings of gates and the overrides of holds: %w", err)
		}
	}
	return nil
}
