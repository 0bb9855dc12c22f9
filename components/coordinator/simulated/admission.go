package simulated

import (
	"context"
	"slices"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Evidence is what a Boot proves of itself: in the simulator it says so.
type Evidence struct {
	Slot, Boot string
	// Serial grows with each time that any Boot asks, as the generations of Boots' leases do.
	Serial uint64
	// InstanceID and AppID are the CVM's, ComposeHash and OSImage what it measured.
	InstanceID, AppID, ComposeHash, OSImage string
	// Epoch is the policy's that the Boot was told of: it is admitted anew where it was
	// admitted at an older one.
	Epoch uint64
}

// Admit records the Boot as the one that holds its Slot, if the Slot's policy lets it; else it
// says false. An error says that it may have been recorded or not: the Boot asks again.
func (c *Coordinator) Admit(ctx context.Context, e Evidence) (bool, error) {
	v, _ := c.views.Latest()
	if v == nil {
		return false, ErrUnreadable
	}
	p, ok := v.Policies[e.Slot]
	if !ok || p.Value.InstanceID != e.InstanceID || e.InstanceID == "" {
		return false, nil
	}
	before := v.Admissions[e.Slot]
	holds := before.Value.BootID == e.Boot
	if holds && before.Value.Epoch >= e.Epoch {
		return true, nil
	}
	for _, a := range slices.Backward(p.Value.Allowed) {
		if a.ComposeHash != e.ComposeHash || e.OSImage != "" && a.OSImage != e.OSImage {
			continue
		}
		if holds && a.Revision != before.Value.Revision && !a.Refresh {
			continue // a Boot stays at what it was admitted at, of what measures the same
		}
		admission := policy.Admission{
			Group: p.Value.Group, Slot: e.Slot, BootID: e.Boot, InstanceID: e.InstanceID, AppID: e.AppID, Revision: a.Revision,
			Epoch: p.Value.Epoch, Generation: e.Serial, AdmittedAt: c.cfg.Now(), By: c.cfg.Slot, TokenAccessors: []string{"token of " + e.Boot},
			// What it measured, and not what the policy has for its Revision: whoever judges it later compares the two.
			Claims: policy.Claims{AppID: e.AppID, InstanceID: e.InstanceID, ComposeHash: e.ComposeHash},
		}
		now := p.Value.Revoking(v.Gate.Revocations)
		if policy.Barred(admission, now).Code != "" || now.RequireApproval && !a.Approved {
			continue
		}
		put, err := store.Put(store.AdmissionKey(e.Slot), admission, before.Index)
		if err != nil {
			return false, err
		}
		// The policy must still be the one that was judged by: the gate may move meanwhile.
		return true, c.cfg.Store.Commit(ctx, put, store.Op{Kind: store.OpCheckIndex, Key: store.SlotPolicyKey(e.Slot), Index: p.Index})
	}
	return false, nil
}

// guard takes Slots away from Boots that may not hold them any more, as admission's does.
func (c *Coordinator) guard(ctx context.Context, lease store.Lease) {
	for {
		v, changed := c.views.Latest()
		if v != nil {
			for slot, a := range v.Admissions {
				if why := v.Unfit(a.Value, v.Policies[slot].Value); why.Code != "" {
					c.evict(ctx, lease, a, why.Code)
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// evict takes the Slot away from its Boot. What is behind fails on its index, and the next View
// has it.
func (c *Coordinator) evict(ctx context.Context, lease store.Lease, a view.Rec[policy.Admission], code policy.Code) {
	end := store.Op{Kind: store.OpDeleteCAS, Key: store.AdmissionKey(a.Value.Slot), Index: a.Index}
	if c.cfg.Store.Commit(ctx, append(lease.Fence(), end)...) != nil {
		return
	}
	_ = c.cfg.Tokens.Retire(ctx, a.Value.Slot, a.Value.TokenAccessors...) // they end by themselves
	if c.cfg.Evicted != nil {
		c.cfg.Evicted(a.Value.Slot, code)
	}
}
