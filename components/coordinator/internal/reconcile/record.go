package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"cadre.dev/coordinator/internal/dedup"
	"cadre.dev/coordinator/internal/truncate"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// record writes the plan, fenced, and reports whether it wrote a record that the next decision
// depends on. Operations, rollout and Slot records go in one transaction: a step exists with all
// its records, or not at all (R60).
func (p *pass) record(ctx context.Context) (changed bool, err error) {
	// New Slots get their address and name before any Operation begins for them.
	if fresh, err := p.recordNewSlots(ctx); err != nil || fresh {
		return fresh, err
	}
	begun, started, err := p.begun()
	if err != nil {
		return false, err
	}
	ops, err := p.rolloutOps()
	if err != nil {
		return false, err
	}
	ops = append(begun, ops...)
	// A retry request goes together with its rollout, not before.
	answered := p.answeredOps(maxAnswered)
	ops = append(ops, answered...)
	ops = append(ops, p.servedSwitch()...)
	// Two more operations are for the state record and the end of the audit chain.
	slotOps, slots, err := p.slotOps(started, store.MaxTxnOps-len(p.lease.Fence())-store.Weight(ops...)-2)
	if err != nil {
		return false, err
	}
	ops = append(ops, slotOps...)
	if err := p.revokeForgotten(ctx); err != nil {
		return false, err
	}
	if len(ops) > 0 {
		write := p.commit
		if len(started) > 0 {
			write = func(ctx context.Context, ops ...store.Op) error { return p.cfg.Watermark.Grow(ctx, p.lease, ops...) }
		}
		if err := write(ctx, ops...); err != nil {
			return false, fmt.Errorf("record plan: %w", err)
		}
		p.count(started, slots)
		for _, op := range started {
			p.log.Info("operation recorded", "operation", op.ID, "slot", op.Slot, "kind", op.Kind, "phase", op.Phase, "revision", op.To, "reason", op.Before.Quorum)
			p.cfg.Failpoint(FailAfterRecorded)
		}
	}
	if err := p.report(ctx); err != nil {
		return false, err
	}
	return len(ops) > 0, nil
}

// count updates the metrics after a write.
func (p *pass) count(started []operation.Operation, slots []group.SlotRecord) {
	for _, op := range started {
		p.cfg.Metrics.Began(op)
	}
	for _, s := range slots {
		p.cfg.Metrics.SlotWritten(p.view.Slots[s.Slot].Value, s)
	}
}

// FailAfterRecorded is the failpoint directly after the record of an Operation.
const FailAfterRecorded = "after-operation-recorded"

// maxAnswered bounds the requests that one pass removes.
const maxAnswered = 8

// maxSlotsPerWrite keeps a transaction below the store's bounds.
const maxSlotsPerWrite = 40

// recordNewSlots writes the records of Slots without a record.
func (p *pass) recordNewSlots(ctx context.Context) (bool, error) {
	missing := slices.ContainsFunc(p.plan.Slots, func(s group.SlotRecord) bool { return s.VIP == "" || s.PlatformName == "" })
	if !missing {
		return false, nil
	}
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	used, err := p.usedLocked(ctx)
	if err != nil {
		return false, err
	}
	slots, ops, err := p.completeSlots(p.plan.Slots, used)
	if err != nil {
		return false, err
	}
	given := len(ops)
	for _, s := range slots {
		before := p.view.Slots[s.Slot]
		if before.Index != 0 && before.Value.VIP != "" && before.Value.PlatformName != "" {
			continue
		}
		op, err := store.Put(store.SlotKey(p.name, s.Slot), s, before.Index)
		if err != nil {
			return false, err
		}
		if ops = append(ops, op); len(ops) == given+maxSlotsPerWrite {
			break // the next pass writes the rest
		}
	}
	if len(ops) == given {
		return false, nil
	}
	if err := p.commit(ctx, ops...); err != nil {
		return false, fmt.Errorf("record new slots: %w", err)
	}
	return true, nil
}

// rolloutOps writes the rollout and the superseded rollout.
func (p *pass) rolloutOps() ([]store.Op, error) {
	var ops []store.Op
	for _, r := range []*operation.Rollout{p.plan.Rollout, p.plan.Superseded} {
		if r == nil {
			continue
		}
		before := p.view.Rollouts[r.ID]
		after := truncate.Rollout(*r)
		if before.Index != 0 {
			after.Term = before.Value.Term
			if dedup.Same(before.Value.Reason, after.Reason) {
				after.Reason = before.Value.Reason
			}
			if same(before.Value, after) {
				continue
			}
		}
		after.Term = p.lease.Term()
		op, err := store.Put(store.RolloutKey(r.ID), after, before.Index)
		if err != nil {
			return nil, err
		}
		ops = append(ops, p.noteRollout(op, before.Value, after))
		retried := after.RetryRequest != before.Value.RetryRequest
		if before.Index == 0 || before.Value.State != after.State || retried {
			said := []any{"rollout", r.ID, "state", after.State, "revision", after.To, "reason", after.Reason, "by", after.By, "request", after.Request}
			if retried {
				said = append(said, "retried_by", after.RetriedBy, "retry_request", after.RetryRequest)
			}
			p.log.Info("rollout", said...)
		}
	}
	return ops, nil
}

// slotOps writes changed Slot records and removes the records of Slots that were scaled in. It uses
// at most room writes, first for Slots whose Operation starts in this transaction. The next pass
// writes the rest. written are the records in ops.
func (p *pass) slotOps(started []operation.Operation, room int) (ops []store.Op, written []group.SlotRecord, err error) {
	slots := p.plan.Slots
	if len(started) > 0 {
		slots = slices.Clone(slots)
		starts := func(slot string) int {
			if slices.ContainsFunc(started, func(o operation.Operation) bool { return o.Slot == slot }) {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(slots, func(a, b group.SlotRecord) int { return cmp.Compare(starts(a.Slot), starts(b.Slot)) })
	}
	for _, s := range slots {
		before := p.view.Slots[s.Slot]
		if before.Index != 0 && same(before.Value, s) {
			continue
		}
		if len(ops) == room {
			return ops, written, nil
		}
		op, err := store.Put(store.SlotKey(p.name, s.Slot), s, before.Index)
		if err != nil {
			return nil, nil, err
		}
		ops, written = append(ops, op), append(written, s)
	}
	for _, slot := range p.plan.Forget {
		forget := p.forgetOps(slot)
		if store.Weight(ops...)+store.Weight(forget...) > room {
			break // a Slot goes as a whole
		}
		ops = append(ops, forget...)
	}
	return ops, written, nil
}

// forgetOps removes all records about a removed Slot.
func (p *pass) forgetOps(slot string) []store.Op {
	var ops []store.Op
	type stored struct {
		key   string
		index uint64
	}
	all := []stored{
		{store.SlotKey(p.name, slot), p.view.Slots[slot].Index},
		{store.SlotPolicyKey(slot), p.view.Policies[slot].Index},
		{store.AdmissionKey(slot), p.view.Admissions[slot].Index},
		{store.RefusalKey(slot), p.view.Refusals[slot].Index},
		{store.MachineKey(slot), p.view.Machines[slot].Index},
	}
	for _, kind := range store.SlotOverrides() { // they must not apply to a later Slot of the same name
		all = append(all, stored{store.OverrideKey(kind, slot), p.view.Overrides[kind][slot].Index})
	}
	for _, record := range all {
		if record.index != 0 {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: record.key, Index: record.index})
		}
	}
	if boot := p.view.Boots[slot]; boot.Leased() {
		// The next Boot of this name must not wait for the lease of a removed CVM. The session
		// holds other Boots' leases too, and perhaps the lease of this Slot's next Boot.
		boot.State = store.LeaseEnded
		if value, err := json.Marshal(boot.BootLease); err == nil {
			key := store.BootLeaseKey(slot)
			ops = append(ops, store.Op{Kind: store.OpCheckIndex, Key: key, Index: boot.Index}, store.Op{Kind: store.OpUnlock, Key: key, Value: value, Session: boot.Session})
		}
	}
	return ops
}

// revokeForgotten revokes the tokens of Slots that were scaled in, before the records that name the
// tokens go (TOK). The CVMs are gone already. After a crash in between, the next pass revokes the
// tokens again.
func (p *pass) revokeForgotten(ctx context.Context) error {
	for _, slot := range p.plan.Forget {
		if err := p.cfg.Tokens.Retire(ctx, slot, p.view.Admissions[slot].Value.TokenAccessors...); err != nil {
			return fmt.Errorf("revoke the tokens of %s: %w", slot, err)
		}
		if p.cfg.RemoveNode == nil {
			continue
		}
		if err := p.cfg.RemoveNode(ctx, slot, ""); err != nil {
			return fmt.Errorf("take the node of %s out of the catalog: %w", slot, err)
		}
	}
	return nil
}

// commit writes under the Lease.
func (p *pass) commit(ctx context.Context, ops ...store.Op) error {
	return p.cfg.Store.Commit(ctx, append(p.lease.Fence(), ops...)...)
}
