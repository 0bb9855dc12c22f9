package reconcile

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// maxAdopted bounds the members that one transaction binds. Each member takes up to three writes,
// and other members of the group may get another address in the same transaction.
const maxAdopted = 10

// adopt binds the CVMs that an operator named to their Slots, exactly as in their latest evidence.
// It removes the request once each CVM is bound or cannot be bound. An operator has to review
// evidence that changed since the request. A bound Boot is admitted at its next attestation; its
// CVM is not changed.
func (p *pass) adopt(ctx context.Context) (fresh bool, err error) {
	request, asked := p.view.Adoptions[p.name]
	if !asked {
		return p.forgetProofs(ctx)
	}
	if p.seen.Listing.Lacks() != nil {
		return false, nil // the CVM is unknown without a listing: the next pass asks again
	}
	// Another group may have got addresses since this pass read the records.
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	if p.view, err = view.Read(ctx, p.cfg.Store); err != nil {
		return false, err
	}
	if request, asked = p.view.Adoptions[p.name]; !asked {
		return true, nil
	}
	var ops []store.Op
	var bound []string
	given := p.view.AddressesOf(p.name)
	left := 0
	all := observe.Adoptable(p.view, p.seen.Spec, p.cfg.Cluster, p.seen.Listing, p.view.Judging(p.cfg.Images), p.now)
	for _, m := range request.Value.Members {
		a, why := adoptable(all, m)
		switch {
		case why != "" && a.Busy:
			left++ // the listing may predate the end of the task; the operator saw the CVM idle
			continue
		case why != "":
			p.log.Warn("slot not adopted", "slot", m.Slot, "instance", m.InstanceID, "by", request.Value.By, "error", why)
			continue
		case len(bound) == maxAdopted:
			left++
			continue
		}
		more, err := p.bindOps(a)
		if err != nil {
			return false, err
		}
		ops, bound = append(ops, more...), append(bound, m.Slot)
		if addr, err := netip.ParseAddr(a.VIP); err == nil {
			given, _ = given.With(addr, a.Ordinal)
		}
		p.log.Info("slot adopted", "slot", m.Slot, "instance", a.InstanceID, "revision", a.Revision, "compose_hash", a.ComposeHash, "by", request.Value.By, "reason", request.Value.Reason)
	}
	if left > 0 && len(bound) == 0 {
		return false, nil
	}
	ops = append(ops, p.moveOps(all, bound)...)
	if len(bound) > 0 {
		p.book.used.AddAll(given)
		more, err := p.addressesOps(given)
		if err != nil {
			return false, err
		}
		ops = append(ops, more...)
	}
	if left == 0 {
		ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.AdoptKey(p.name), Index: request.Index})
	}
	if err := p.commit(ctx, ops...); err != nil {
		return false, fmt.Errorf("adopt: %w", err)
	}
	return true, nil
}

// adoptable returns the requested member in its present state, or why it is not bound.
func adoptable(all []rollout.Adoptable, m store.Adopted) (a rollout.Adoptable, why string) {
	i := slices.IndexFunc(all, func(a rollout.Adoptable) bool { return a.Slot == m.Slot })
	if i < 0 {
		return a, "the slot is bound, or the group has no such slot"
	}
	a = all[i]
	switch {
	case a.Missing != "":
		return a, a.Missing
	case a.InstanceID != m.InstanceID || a.ComposeHash != m.ComposeHash || m.Revision != "" && a.Revision != m.Revision || m.VMUUID != "" && a.VMUUID != m.VMUUID:
		return a, fmt.Sprintf("it attests instance %.12s and compose hash %.12s now", a.InstanceID, a.ComposeHash)
	}
	return a, ""
}

// bindOps write the binding and the policy of one member, and remove its Proof.
func (p *pass) bindOps(a rollout.Adoptable) ([]store.Op, error) {
	before, sp := p.view.Slots[a.Slot], p.view.Policies[a.Slot]
	record := before.Value
	if record.Slot == "" {
		record = group.SlotRecord{Group: p.name, Slot: a.Slot, Ordinal: a.Ordinal}
	}
	if record.PlatformName == "" {
		record.PlatformName = p.platformName(a.Slot)
	}
	record, allowed := a.Bind(record, sp.Value)
	allowed = p.view.Folded(allowed)
	allowed.Epoch, allowed.Term = sp.Value.Epoch+1, p.lease.Term()
	slot, err := store.Put(store.SlotKey(p.name, a.Slot), record, before.Index)
	if err != nil {
		return nil, err
	}
	policy, err := store.Put(store.SlotPolicyKey(a.Slot), allowed, sp.Index)
	if err != nil {
		return nil, err
	}
	return []store.Op{slot, policy, {Kind: store.OpDeleteCAS, Key: store.ProofKey(a.Slot), Index: p.view.Proofs[a.Slot].Index}}, nil
}

// moveOps take the address from members that no CVM is bound to yet. Bound members keep the address
// that they have; the next pass assigns the others another address.
func (p *pass) moveOps(all []rollout.Adoptable, bound []string) []store.Op {
	moved := slices.ContainsFunc(all, func(a rollout.Adoptable) bool {
		return slices.Contains(bound, a.Slot) && a.VIP != "" && a.VIP != p.view.Slots[a.Slot].Value.VIP
	})
	var ops []store.Op
	for _, record := range p.view.SlotsOf(p.name) {
		if !moved || record.InstanceID != "" || slices.Contains(bound, record.Slot) || record.VIP == "" {
			continue
		}
		record.VIP = "" // the next pass assigns another address
		if op, err := store.Put(store.SlotKey(p.name, record.Slot), record, p.view.Slots[record.Slot].Index); err == nil && len(ops) < maxAdopted {
			ops = append(ops, op)
		}
	}
	return ops
}

// forgetProofs removes the Proofs of Slots that were bound since.
func (p *pass) forgetProofs(ctx context.Context) (fresh bool, err error) {
	var ops []store.Op
	for slot, proof := range p.view.Proofs {
		if proof.Value.Group == p.name && p.view.Policies[slot].Value.InstanceID != "" && p.view.Slots[slot].Value.InstanceID != "" && len(ops) < maxAdopted {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.ProofKey(slot), Index: proof.Index})
		}
	}
	if len(ops) == 0 {
		return false, nil
	}
	return true, p.commit(ctx, ops...)
}
