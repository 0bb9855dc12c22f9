package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// EnsureRevision records the content of the spec's Revision, with the hash that
// the platform says it would measure. Before the group has a CVM there is no app
// to ask about, and the first creation records it.
func (o *Operator) EnsureRevision(ctx context.Context, lease store.Lease, v *view.View, seen observe.Seen) (changed bool, err error) {
	target := seen.Spec.Revision()
	if _, ok := v.Revisions[target]; ok || !seen.Now.Complete {
		return false, nil
	}
	vm := anyInstance(seen, appOf(seen))
	if vm == "" || !o.mayTry(target) {
		return false, nil
	}
	p, err := o.provision(ctx, v, seen, operation.Operation{Kind: operation.Update, VMUUID: vm, To: target})
	if err != nil {
		// The plan goes on; each step is held back by the same check (R74).
		o.cfg.Log.Warn("revision not provisioned", "group", seen.Spec.Name, "revision", target, "error", err)
		return false, nil
	}
	return o.recordRevision(ctx, lease, v, seen.Spec.Name, target, p)
}

// retryProvision paces provisioning that the platform refuses.
const retryProvision = 10 * time.Second

func (o *Operator) mayTry(revision string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.cfg.Now()
	if now.Before(o.notBefore[revision]) {
		return false
	}
	maps.DeleteFunc(o.notBefore, func(_ string, until time.Time) bool { return !now.Before(until) })
	o.notBefore[revision] = now.Add(retryProvision)
	return true
}

func (o *Operator) recordRevision(ctx context.Context, lease store.Lease, v *view.View, groupName, digest string, p prepared) (changed bool, err error) {
	if _, ok := v.Revisions[digest]; ok {
		return false, nil
	}
	spec, _, _ := v.InForce(groupName)
	if spec.Revision() != digest {
		return false, nil // the spec moved on; its content is not this one
	}
	put, err := store.Put(store.RevisionKey(digest), group.RevisionRecord{
		Digest: digest, Group: groupName, Template: spec.Template, Conduct: spec.Conduct(), RestartToken: spec.RestartToken,
		ComposeHash: p.provisioned.ComposeHash, CreatedAt: o.cfg.Now().UTC(),
		Number: v.Gate.Groups[groupName].Value.Number(digest),
	}, 0)
	if err != nil {
		return false, err
	}
	if err := o.cfg.Store.Commit(ctx, append(lease.Fence(), put)...); err != nil {
		return false, fmt.Errorf("record revision %s: %w", digest, err)
	}
	o.cfg.Log.Info("revision recorded", "group", groupName, "revision", digest, "compose_hash", p.provisioned.ComposeHash, "term", lease.Term())
	return true, nil
}

// TidyPolicies makes each Slot's policy name the CVM that its record is bound to,
// and, when no Operation is open, allows only the Revision that the Slot is
// assigned or proven to run.
func (o *Operator) TidyPolicies(ctx context.Context, lease store.Lease, v *view.View, groupName string) (changed bool, err error) {
	for _, record := range v.SlotsOf(groupName) {
		before, ok := v.Policies[record.Slot]
		if !ok {
			continue
		}
		after := before.Value
		if record.InstanceID != "" {
			after.InstanceID = record.InstanceID
			if record.AppID != "" {
				after.AppID = record.AppID
			}
		}
		if _, open := v.OpenOperation(record.Slot); !open {
			running := v.Admissions[record.Slot].Value.Revision
			after.Allowed = slices.DeleteFunc(slices.Clone(after.Allowed), func(a policy.AllowedRevision) bool {
				return a.Revision != record.Assigned && a.Revision != running
			})
		}
		wrote, err := o.putPolicy(ctx, lease, v, before, after)
		if err != nil {
			return changed, err
		}
		if wrote && before.Value.InstanceID != after.InstanceID {
			o.cfg.Log.Info("slot bound", "group", groupName, "slot", record.Slot, "instance", after.InstanceID, "term", lease.Term())
		}
		changed = changed || wrote
	}
	return changed, nil
}
