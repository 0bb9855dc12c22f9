package reconcile

import (
	"context"
	"fmt"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// gate records what operators asked for about admission, as far as it is accepted:
// the order of the Revisions, the floor, the approvals. It is written before anything
// is planned by it, so that a floor that a plan rested on cannot be forgotten.
func (p *pass) gate(ctx context.Context) (changed bool, err error) {
	after, _ := p.view.FoldGroup(p.seen.Spec, p.now)
	before := p.view.Gate.Groups[p.name]
	if before.Index != 0 && same(before.Value, after) {
		return false, nil
	}
	after.Epoch, after.Term = before.Value.Epoch+1, p.lease.Term()
	put, err := store.Put(store.GroupPolicyKey(p.name), after, before.Index)
	if err != nil {
		return false, fmt.Errorf("record the group's policy: %w", err)
	}
	if err := p.commit(ctx, put); err != nil {
		return false, fmt.Errorf("record the group's policy: %w", err)
	}
	if after.Floor.Number != before.Value.Floor.Number {
		p.log.Info("floor raised", "number", after.Floor.Number, "by", after.Floor.By, "reason", after.Floor.Reason)
	}
	return true, nil
}

// enforceEvery repeats what did not work.
const enforceEvery = 2 * time.Second

// enforce takes Slots away from Boots that are revoked or below the floor, whatever
// else is the matter with their group, until ctx ends.
func (r *Reconciler) enforce(ctx context.Context) {
	done := map[string]string{} // Slot to what was done for it
	ticker := time.NewTicker(enforceEvery)
	defer ticker.Stop()
	for {
		v, changed := r.cfg.Views.Latest()
		if v != nil {
			r.enforceOnce(ctx, v, done)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ticker.C:
		}
	}
}

func (r *Reconciler) enforceOnce(ctx context.Context, v *view.View, done map[string]string) {
	for slot := range done {
		if _, ok := v.Admissions[slot]; !ok {
			delete(done, slot)
		}
	}
	for slot, a := range v.Admissions {
		d := policy.Barred(a.Value, v.Folded(v.Policies[slot].Value))
		if d.Code == "" {
			delete(done, slot)
			continue
		}
		mark := fmt.Sprint(a.Value.BootID, a.Value.Generation, a.Value.TokenAccessors, d.Code)
		if done[slot] == mark {
			continue
		}
		if err := r.evict(ctx, slot, a.Value, d); err != nil {
			if ctx.Err() == nil {
				r.log.Warn("slot not taken away yet", "slot", slot, "code", d.Code, "error", err)
			}
			continue
		}
		r.log.Warn("slot taken away", "group", a.Value.Group, "slot", slot, "instance", a.Value.InstanceID, "boot", a.Value.BootID, "code", d.Code, "reason", d.Message)
		done[slot] = mark
	}
}

// evict takes the tokens back before the record that names them may go.
func (r *Reconciler) evict(ctx context.Context, slot string, a policy.Admission, d policy.Decision) error {
	if err := r.cfg.Tokens.Retire(ctx, slot, a.TokenAccessors...); err != nil {
		return fmt.Errorf("take the tokens back: %w", err)
	}
	if r.cfg.Evictor == nil {
		return nil
	}
	return r.cfg.Evictor.Evict(ctx, slot, d.Code, d.Message)
}
