package reconcile

import (
	"context"
	"fmt"

	"cadre.dev/store"
)

// gate records the accepted requests of operators about admission: the order of the Revisions, the
// floor, the approvals. The write precedes the plan, so that a floor that a plan rests on cannot be
// lost.
func (p *pass) gate(ctx context.Context) (changed bool, err error) {
	after, _ := p.view.FoldAsked(p.seen.Spec, p.seen.Asked, p.now)
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
