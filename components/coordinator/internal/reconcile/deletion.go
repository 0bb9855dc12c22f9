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

// removeGroup removes what is left of a group whose deletion an operator asked for, once
// no Slot of it is left. The switch goes last, with the rest or not at all: a crash
// before finds it again.
func (p *pass) removeGroup(ctx context.Context) (done bool, err error) {
	if !p.plan.Gone {
		return false, nil
	}
	ops := []store.Op{{Kind: store.OpCheckIndex, Key: store.DeleteGroupKey(p.name), Index: p.view.Deletes[p.name].Index}}
	for _, key := range []string{
		store.GroupSpecKey(p.name), store.AppliedKey(p.name), store.GroupAcceptedKey(p.name), store.GroupStatusKey(p.name), store.GroupPolicyKey(p.name), store.ServiceMeshKey(p.name),
		store.OverrideKey(store.OverridePause, p.name), store.OverrideKey(store.OverrideFreeze, p.name), store.DeleteDisksKey(p.name), store.AdoptKey(p.name), store.DeleteGroupKey(p.name),
	} {
		ops = append(ops, store.Op{Kind: store.OpDelete, Key: key})
	}
	over, err := p.endRollout()
	if err != nil {
		return false, err
	}
	ops = append(ops, over...)
	if err := p.commit(ctx, ops...); err != nil {
		return false, fmt.Errorf("remove the group: %w", err)
	}
	asked := p.view.Deletes[p.name].Value
	p.log.Info("group deleted", "keep_cvms", asked.KeepCVMs, "by", asked.By, "reason", asked.Reason)
	return true, nil
}

// endRollout has a rollout that is under way be over with its group: a group that is made anew under its
// name does not go on with it. What ended before stays as it was, for those who ask what was.
func (p *pass) endRollout() ([]store.Op, error) {
	all := p.view.RolloutsOf(p.name)
	if len(all) == 0 {
		return nil, nil
	}
	r := all[0].Value
	switch r.State {
	case operation.Running, operation.PausedState:
	case operation.Complete, operation.PartitionReached, operation.FailedState, operation.SupersededState:
		return nil, nil
	}
	r.State, r.Reason, r.EndedAt, r.Term = operation.SupersededState, "the group was deleted", p.now, p.lease.Term()
	op, err := store.Put(store.RolloutKey(r.ID), truncate.Rollout(r), all[0].Index)
	if err != nil {
		return nil, fmt.Errorf("end the rollout: %w", err)
	}
	return []store.Op{op}, nil
}

// takenBack removes the permission to delete disks with the spec that wants one of their Slots again,
// also one that came by an edit of the KV: the next scale-in asks anew (R135). Who writes the permission
// there before the spec that it is for keeps it.
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

// servedSwitch removes the permission to delete disks once none of the Slots that it
// names is left to be deleted: it must not hold for a Slot of the same name that is made
// later.
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
