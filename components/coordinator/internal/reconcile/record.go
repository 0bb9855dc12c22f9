package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// record writes what the plan says, fenced, and reports whether anything was
// written that the next decision depends on. Operations, rollout and Slot
// records go in one transaction: a step exists with everything it means, or not
// at all (R60).
func (p *pass) record(ctx context.Context) (changed bool, err error) {
	// New Slots get their address and name before anything is begun for them.
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
	slotOps, err := p.slotOps()
	if err != nil {
		return false, err
	}
	ops = append(ops, slotOps...)
	if len(ops) > 0 {
		if err := p.commit(ctx, ops...); err != nil {
			return false, fmt.Errorf("record plan: %w", err)
		}
		for _, op := range started {
			p.log.Info("operation recorded", "operation", op.ID, "slot", op.Slot, "kind", op.Kind, "revision", op.To, "reason", op.QuorumSnapshot)
			p.cfg.Failpoint(FailAfterRecorded)
		}
	}
	if err := p.recordStatus(ctx); err != nil {
		return false, err
	}
	return len(ops) > 0, nil
}

// FailAfterRecorded is the failpoint between recording an Operation and
// anything else.
const FailAfterRecorded = "after-operation-recorded"

// maxSlotsPerWrite keeps a transaction below the store's bounds.
const maxSlotsPerWrite = 40

// recordNewSlots writes the records of Slots that have none yet.
func (p *pass) recordNewSlots(ctx context.Context) (bool, error) {
	missing := slices.ContainsFunc(p.plan.Slots, func(s group.SlotRecord) bool { return s.VIP == "" || s.PlatformName == "" })
	if !missing {
		return false, nil
	}
	p.addresses.Lock()
	defer p.addresses.Unlock()
	// Another group may have taken a network since this pass looked.
	fresh, err := view.Read(ctx, p.cfg.Store)
	if err != nil {
		return false, err
	}
	p.view = fresh
	slots, err := p.completeSlots(p.plan.Slots)
	if err != nil {
		return false, err
	}
	var ops []store.Op
	for _, s := range slots {
		before := p.view.Slots[s.Slot]
		if before.Index != 0 && before.Value.VIP != "" && before.Value.PlatformName != "" {
			continue
		}
		op, err := store.Put(store.SlotKey(p.name, s.Slot), s, before.Index)
		if err != nil {
			return false, err
		}
		if ops = append(ops, op); len(ops) == maxSlotsPerWrite {
			break // the next pass writes the rest
		}
	}
	if len(ops) == 0 {
		return false, nil
	}
	if err := p.commit(ctx, ops...); err != nil {
		return false, fmt.Errorf("record new slots: %w", err)
	}
	return true, nil
}

// rolloutOps writes the rollout, and the one that it replaced.
func (p *pass) rolloutOps() ([]store.Op, error) {
	var ops []store.Op
	for _, r := range []*operation.Rollout{p.plan.Rollout, p.plan.Superseded} {
		if r == nil {
			continue
		}
		before := p.view.Rollouts[r.ID]
		after := *r
		if before.Index != 0 {
			after.Term = before.Value.Term
			if same(before.Value, after) {
				continue
			}
		}
		after.Term = p.lease.Term()
		op, err := store.Put(store.RolloutKey(r.ID), after, before.Index)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
		if before.Index == 0 || before.Value.State != after.State {
			p.log.Info("rollout", "rollout", r.ID, "state", after.State, "revision", after.To, "reason", after.Reason)
		}
	}
	return ops, nil
}

// slotOps writes Slot records that read differently now, and removes those of
// Slots that were scaled in.
func (p *pass) slotOps() ([]store.Op, error) {
	var ops []store.Op
	for _, s := range p.plan.Slots {
		before := p.view.Slots[s.Slot]
		if before.Index != 0 && same(before.Value, s) {
			continue
		}
		op, err := store.Put(store.SlotKey(p.name, s.Slot), s, before.Index)
		if err != nil {
			return nil, err
		}
		if ops = append(ops, op); len(ops) == maxSlotsPerWrite {
			break
		}
	}
	for _, slot := range p.plan.Forget {
		for key, index := range map[string]uint64{
			store.SlotKey(p.name, slot): p.view.Slots[slot].Index,
			store.SlotPolicyKey(slot):   p.view.Policies[slot].Index,
			store.AdmissionKey(slot):    p.view.Admissions[slot].Index,
			store.RefusalKey(slot):      p.view.Refusals[slot].Index,
		} {
			if index != 0 && len(ops) < 2*maxSlotsPerWrite/3 {
				ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: key, Index: index})
			}
		}
	}
	return ops, nil
}

// recordStatus writes the status when it says something new, and otherwise once
// per resync, so that readers can tell how old it is.
func (p *pass) recordStatus(ctx context.Context) error {
	before := p.view.Statuses[p.name]
	after := p.plan.Status
	after.Group, after.ObservedIndex = p.name, p.view.Specs[p.name].Index
	after.Term, after.At = before.Value.Term, before.Value.At
	if before.Index != 0 && same(before.Value, after) && p.now.Sub(before.Value.At) < resync && before.Value.Term == p.lease.Term() {
		return nil
	}
	after.Term, after.At = p.lease.Term(), p.now
	return p.putStatus(ctx, after, before.Index)
}

func (p *pass) putStatus(ctx context.Context, status group.Status, index uint64) error {
	op, err := store.Put(store.GroupStatusKey(p.name), status, index)
	if err != nil {
		return err
	}
	if err := p.commit(ctx, op); err != nil {
		return fmt.Errorf("record status: %w", err)
	}
	return nil
}

// ConditionSpecValid says whether the stored spec can be used.
const ConditionSpecValid = "SpecValid"

// recordInvalid reports a spec that cannot be used, with every problem, and
// leaves all else as it was: the last good state goes on being served.
func (p *pass) recordInvalid(ctx context.Context, spec view.Spec) error {
	before := p.view.Statuses[p.name]
	after := before.Value
	after.Group, after.ObservedIndex = p.name, spec.Index
	after.Message = "the spec is not valid and changes nothing: " + firstLine(spec.Err)
	condition := group.Condition{Type: ConditionSpecValid, Status: false, Reason: "SPEC_INVALID", Message: bounded(spec.Err.Error()), Since: p.now}
	after.Conditions = slices.Clone(after.Conditions)
	at := slices.IndexFunc(after.Conditions, func(c group.Condition) bool { return c.Type == ConditionSpecValid })
	if at >= 0 {
		if old := after.Conditions[at]; !old.Status && old.Message == condition.Message {
			condition.Since = old.Since
		}
		after.Conditions[at] = condition
	} else {
		after.Conditions = append(after.Conditions, condition)
	}
	if before.Index != 0 && same(before.Value, after) {
		return nil
	}
	p.log.Warn("spec not valid", "error", spec.Err)
	after.Term, after.At = p.lease.Term(), p.now
	return p.putStatus(ctx, after, before.Index)
}

func firstLine(err error) string {
	if v, ok := errors.AsType[*group.ValidationError](err); ok && len(v.Problems) > 0 {
		more := ""
		if n := len(v.Problems) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		return v.Problems[0].String() + more
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return bounded(line)
}

func bounded(text string) string {
	const limit = 8 << 10
	if len(text) > limit {
		return text[:limit] + "..."
	}
	return text
}

// commit writes under the Lease.
func (p *pass) commit(ctx context.Context, ops ...store.Op) error {
	return p.cfg.Store.Commit(ctx, append(p.lease.Fence(), ops...)...)
}

// sweepEvery and nonceKept say when spent nonces are removed: they cannot be
// used again once their exchange has expired, clocks that differ aside.
const (
	sweepEvery = time.Minute
	nonceKept  = 10 * time.Minute
	// operationsKept is how many ended Operations a Slot keeps beside those of the
	// current rollout.
	operationsKept = 20
	sweepBatch     = 30
)

// sweep removes records that have served.
func (r *Reconciler) sweep(ctx context.Context, lease store.Lease) error {
	v, err := view.Read(ctx, r.cfg.Store)
	if err != nil {
		return err
	}
	var ops []store.Op
	for key, nonce := range v.Nonces {
		if r.cfg.Now().Sub(nonce.Value.ExpiresAt) > nonceKept {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: key, Index: nonce.Index})
		}
	}
	for slot := range v.Slots {
		kept := 0
		for _, o := range v.OperationsOf(slot) {
			if !o.Value.Phase.Ended() {
				continue
			}
			if kept++; kept > operationsKept && o.Value.Rollout != v.Statuses[o.Value.Group].Value.Rollout {
				ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.OperationKey(o.Value.ID), Index: o.Index})
			}
		}
	}
	for batch := range slices.Chunk(ops, sweepBatch) {
		if err := r.cfg.Store.Commit(ctx, append(lease.Fence(), batch...)...); err != nil {
			return err
		}
	}
	return nil
}
