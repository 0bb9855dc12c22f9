package reconcile

import (
	"context"
	"fmt"
	"slices"

	"cadre.dev/coordinator/internal/truncate"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// removeGroup removes the remaining records of a group whose deletion an operator requested, once
// the group has no Slots. The deletion request goes in the same transaction, so a crash before it
// leaves the request in place.
func (p *pass) removeGroup(ctx context.Context) (done bool, err error) {
	if !p.plan.Gone {
		return false, nil
	}
	ops := []store.Op{{Kind: store.OpCheckIndex, Key: store.DeleteGroupKey(p.name), Index: p.view.Deletes[p.name].Index}}
	for _, key := range []string{
		store.GroupSpecKey(p.name), store.AppliedKey(p.name), store.GroupAcceptedKey(p.name), store.GroupStatusKey(p.name), store.GroupPolicyKey(p.name), store.ServiceMeshKey(p.name), store.MachineTurnKey(p.name),
		store.OverrideKey(store.OverridePause, p.name), store.OverrideKey(store.OverrideFreeze, p.name), store.DeleteDisksKey(p.name), store.AdoptKey(p.name), store.DeleteGroupKey(p.name),
	} {
		ops = append(ops, store.Op{Kind: store.OpDelete, Key: key})
	}
	over, err := p.endRollout()
	if err != nil {
		return false, err
	}
	ops = append(ops, over...)
	// They must not apply to a later group of the same name.
	ofGroup, ofSlots := p.settings(func(string) bool { return true })
	if err := p.removeSettings(ctx, slices.Concat(ofGroup, ofSlots, p.holdOverrides())); err != nil {
		return false, err
	}
	if err := p.commit(ctx, ops...); err != nil {
		return false, fmt.Errorf("remove the group: %w", err)
	}
	asked := p.view.Deletes[p.name].Value
	p.log.Info("group deleted", "keep_cvms", asked.KeepCVMs, "by", asked.By, "reason", asked.Reason)
	return true, nil
}

// endRollout ends the group's running rollout, so that a new group of the same name does not
// continue it. A rollout that ended earlier keeps its record as history.
func (p *pass) endRollout() ([]store.Op, error) {
	all := p.view.RolloutsOf(p.name)
	if len(all) == 0 {
		return nil, nil
	}
	r := all[0].Value
	switch r.State {
	case operation.Running, operation.BakingState, operation.PausedState, operation.RollingBack:
	case operation.Complete, operation.PartitionReached, operation.FailedState, operation.SupersededState, operation.RolledBack:
		return nil, nil
	}
	r.State, r.Reason, r.EndedAt, r.Term = operation.SupersededState, "the group was deleted", p.now, p.lease.Term()
	after := truncate.Rollout(r)
	op, err := store.Put(store.RolloutKey(r.ID), after, all[0].Index)
	if err != nil {
		return nil, fmt.Errorf("end the rollout: %w", err)
	}
	return []store.Op{p.noteRollout(op, all[0].Value, after)}, nil
}

// takenBack removes the permission to delete disks together with the spec that wants one of its
// Slots again. This includes a spec that came by an edit of the KV. The next scale-in needs a new
// permission (R135). A permission that is written to the KV before its spec is kept.
func (p *pass) takenBack(next group.Spec) []store.Op {
	asked, ok := p.view.DeleteDisks[p.name]
	before, known := p.view.Accepted[p.name]
	if !ok || !known || !slices.ContainsFunc(asked.Value.Slots, func(slot string) bool {
		_, ordinal, err := group.ParseSlot(slot)
		return err == nil && next.HasOrdinal(ordinal) && !before.Value.HasOrdinal(ordinal)
	}) {
		return nil
	}
	return []store.Op{{Kind: store.OpDeleteCAS, Key: store.DeleteDisksKey(p.name), Index: asked.Index}}
}

// servedSwitch removes the permission to delete disks once all Slots that it names are gone. It
// must not apply to a later Slot of the same name.
func (p *pass) servedSwitch() []store.Op {
	asked, ok := p.view.DeleteDisks[p.name]
	if !ok {
		return nil
	}
	for _, slot := range asked.Value.Slots {
		if _, is := p.view.Slots[slot]; is {
			return nil
		}
	}
	return []store.Op{{Kind: store.OpDeleteCAS, Key: store.DeleteDisksKey(p.name), Index: asked.Index}}
}
