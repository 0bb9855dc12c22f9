package simulated

import (
	"context"
	"slices"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Evidence is the evidence of a Boot; the simulator trusts it.
type Evidence struct {
	Slot, Boot string
	// Serial grows with each request of any Boot, like the generations of Boots' leases.
	Serial uint64
	// InstanceID and AppID of the CVM, ComposeHash and OSImage as measured.
	InstanceID, AppID, ComposeHash, OSImage string
	// Epoch of the last policy that the Boot received. A Boot that was admitted under an older
	// epoch is admitted again.
	Epoch uint64
}

// Admit records the Boot as the holder of its Slot if the Slot's policy permits it, and otherwise
// returns false. After an error the outcome is unknown: the Boot retries.
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
			continue // a Boot keeps the revision of its admission, among revisions with the same measurement
		}
		admission := policy.Admission{
			Group: p.Value.Group, Slot: e.Slot, BootID: e.Boot, InstanceID: e.InstanceID, AppID: e.AppID, Revision: a.Revision,
			Epoch: p.Value.Epoch, Generation: e.Serial, AdmittedAt: c.cfg.Now(), By: c.cfg.Slot, TokenAccessors: []string{"token of " + e.Boot},
			// The claims have the measured hash, not the policy's hash of the Revision: later
			// checks compare the two.
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
		// The judged policy must still be current, because the gate may move meanwhile.
		return true, c.cfg.Store.Commit(ctx, put, store.Op{Kind: store.OpCheckIndex, Key: store.SlotPolicyKey(e.Slot), Index: p.Index})
	}
	return false, nil
}

// guard evicts Boots that may not hold their Slots any more, as the admission service does.
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

// evict ends the Boot's admission. A stale index makes the write fail, and the next View has the
// current one.
func (c *Coordinator) evict(ctx context.Context, lease store.Lease, a view.Rec[policy.Admission], code policy.Code) {
	end := store.Op{Kind: store.OpDeleteCAS, Key: store.AdmissionKey(a.Value.Slot), Index: a.Index}
	if c.cfg.Store.Commit(ctx, append(lease.Fence(), end)...) != nil {
		return
	}
	_ = c.cfg.Tokens.Retire(ctx, a.Value.Slot, a.Value.TokenAccessors...) // tokens that stay expire
	if c.cfg.Evicted != nil {
		c.cfg.Evicted(a.Value.Slot, code)
	}
}
