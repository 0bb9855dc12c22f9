package reconcile

import (
	"context"
	"fmt"

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
		store.GroupSpecKey(p.name), store.GroupAcceptedKey(p.name), store.GroupStatusKey(p.name), store.GroupPolicyKey(p.name), store.MeshKey(p.name),
		store.PauseKey(p.name), store.GroupFreezeKey(p.name), store.DeleteDisksKey(p.name), store.AdoptKey(p.name), store.DeleteGroupKey(p.name),
	} {
		ops = append(ops, store.Op{Kind: store.OpDelete, Key: key})
	}
	if err := p.commit(ctx, ops...); err != nil {
		return false, fmt.Errorf("remove the group: %w", err)
	}
	asked := p.view.Deletes[p.name].Value
	p.log.Info("group deleted", "keep_cvms", asked.KeepCVMs, "by", asked.By, "reason", asked.Reason)
	return true, nil
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
