package operate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
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

// EnsureRevision asks the platform about the Revisions in the spec, that is, the target and the
// pins of Slots, before a member is touched for them (R74). It records their content with the
// judged document. A group without a CVM has no app to ask about; its first creation records the
// content. The sizes of single Slots are asked about as well.
func (o *Operator) EnsureRevision(ctx context.Context, lease store.Lease, v *view.View, seen observe.Seen) (changed bool, err error) {
	if seen.Now.Complete() {
		o.judgeSizes(ctx, v, seen)
	}
	vm := anyInstance(seen, appOf(seen))
	if vm == "" || !seen.Now.Complete() {
		return false, nil
	}
	through := o.toProvision(v, seen)
	for _, revision := range slices.Sorted(maps.Keys(through)) {
		if !o.mayTry(revision) {
			continue
		}
		p, err := o.provision(ctx, v, seen, operation.Operation{Kind: operation.Update, CVM: operation.CVM{VMUUID: cmp.Or(through[revision], vm)}, To: revision})
		if err != nil {
			// The plan goes on; the same check blocks each step (R74). After a failed or hanging
			// request this pass sends no other, and retries wait.
			o.cfg.Log.Warn("revision not provisioned", "group", seen.Spec.Name, "revision", revision, "error", err)
			o.pace(revision)
			return false, nil
		}
		o.taken(seen.Spec.Name, revision)
		if kept, err := o.keep(ctx, lease, v, seen.Spec.Name, revision, &p); err != nil || kept {
			return kept, err
		}
	}
	return false, nil
}

// taken records that the platform accepted a Revision.
func (o *Operator) taken(groupName, revision string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked[groupName] == nil {
		o.asked[groupName] = map[string]bool{}
	}
	o.asked[groupName][revision] = true
	delete(o.notBefore, revision)
}

// toProvision returns the Revisions in the spec that the platform has not confirmed, each with the
// CVM to ask through; "" means any CVM. A pinned Revision is asked about through its Slot's own
// CVM, because the check skips names that this CVM already has. The platform may withdraw names of
// a recorded Revision. While a Slot still has to move there, each leader therefore asks again. A
// leader also asks again when the spec names the Revision again.
func (o *Operator) toProvision(v *view.View, seen observe.Seen) map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	target, slots := seen.Asked.Target.Revision, v.SlotsOf(seen.Spec.Name)
	asked, through, named := o.asked[seen.Spec.Name], map[string]string{}, map[string]bool{target: true}
	for _, own := range seen.Spec.Instances {
		pin := own.PinnedRevision
		goes := func(s group.SlotRecord) bool { return s.Ordinal == own.Ordinal && s.Assigned != pin }
		_, recorded := v.Revisions[pin]
		// Of several Slots with one pin, a Slot that still has to move there. The other Slots need
		// no check.
		if named[pin] = true; (o.refused[pin] != "" || recorded && !asked[pin]) && slices.ContainsFunc(slots, goes) {
			through[pin] = instanceOf(seen, own.Ordinal)
		}
	}
	goes := func(s group.SlotRecord) bool { return s.Assigned != target && follows(v, seen.Spec, s, o.cfg.Now()) }
	_, recorded := v.Revisions[target]
	if !recorded || o.refused[target] != "" || !asked[target] && slices.ContainsFunc(slots, goes) {
		through[target] = mover(v, seen, target, o.cfg.Now())
	}
	maps.DeleteFunc(asked, func(revision string, _ bool) bool { return !named[revision] })
	return through
}

// mover is the CVM through which the platform is asked about the target. The check skips names that
// the CVM already has. mover therefore prefers a CVM that lacks the target's names, then any other
// CVM that still has to move; "": there is none.
func mover(v *view.View, seen observe.Seen, revision string, now time.Time) (vm string) {
	app, slots := appOf(seen), map[string]group.SlotRecord{}
	t, _ := templateOf(v, seen.Spec, revision)
	for _, s := range v.SlotsOf(seen.Spec.Name) {
		if follows(v, seen.Spec, s, now) {
			slots[s.VMUUID] = s
		}
	}
	for _, i := range seen.Listing.Instances {
		s, bound := slots[i.VMUUID]
		switch {
		case i.AppID != app || i.VMUUID == "" || !bound || s.Assigned == revision:
		case sizeApart(v, seen.Spec, s.Ordinal, i.InstanceType, t) == "" && (!group.SameOSImage(i.OSImage, t.OSImage) || i.InstanceType != t.InstanceType):
			return i.VMUUID
		default:
			vm = cmp.Or(vm, i.VMUUID)
		}
	}
	return vm
}

// follows: the Slot moves to the target automatically. A Slot that is kept elsewhere is no evidence
// about the names that the others may use.
func follows(v *view.View, spec group.Spec, s group.SlotRecord, now time.Time) bool {
	return spec.HasOrdinal(s.Ordinal) && spec.KeptBy(s.Ordinal, v.ExcludedFrom(s.Slot, now)) == ""
}

// instanceOf is the CVM of the Slot of an ordinal; "": none is known.
func instanceOf(seen observe.Seen, ordinal int) string {
	for _, s := range seen.Now.Slots {
		if s.Ordinal == ordinal && s.Instance != nil {
			return s.Instance.VMUUID
		}
	}
	return ""
}

// retryProvision paces provisioning that the platform refuses.
const retryProvision = 10 * time.Second

// pace delays the next request about a Revision.
func (o *Operator) pace(revision string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notBefore[revision] = o.cfg.Now().Add(retryProvision)
}

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

// keep writes the judged document and its Revision. Both records exist before the hash is allowed,
// so that operators can read every allowed document.
func (o *Operator) keep(ctx context.Context, lease store.Lease, v *view.View, groupName, digest string, p *prepared) (changed bool, err error) {
	kept, err := o.keepDocument(ctx, lease, groupName, digest, p)
	if err != nil {
		return false, err
	}
	recorded, err := o.recordRevision(ctx, lease, v, groupName, digest, *p)
	return kept || recorded, err
}

// keepDocument writes the document unless it is there. Each pass until the call reads it, because
// another writer may remove it. It is unpacked only once: equal bytes stay valid.
func (o *Operator) keepDocument(ctx context.Context, lease store.Lease, groupName, digest string, p *prepared) (changed bool, err error) {
	key := store.AppComposeKey(p.hash)
	old, err := o.cfg.Store.Get(ctx, key)
	switch {
	case err == nil && p.document != nil && bytes.Equal(old.Value, p.document):
		return false, nil
	case err == nil:
		if err = usable(old); err == nil {
			p.document = old.Value
			return false, nil
		}
		o.cfg.Log.Error("document not usable, it is written again", "compose_hash", p.hash, "error", err)
	case !errors.Is(err, store.ErrNotFound):
		return false, fmt.Errorf("read the document of %.16s: %w", p.hash, err)
	}
	document, err := policy.NewDocument(groupName, digest, p.text, o.cfg.Now().UTC(), lease.Term())
	if err != nil {
		return false, err
	}
	put, err := store.Put(key, document, old.Index)
	if err != nil {
		return false, err
	}
	if err := o.cfg.Store.Commit(ctx, append(lease.Fence(), put)...); err != nil {
		return false, fmt.Errorf("keep the document of %.16s: %w", p.hash, err)
	}
	return true, nil
}

// usable is why a record is not a judged document; nil: it is a judged document.
func usable(entry store.Entry) error {
	document, err := store.Decode[policy.Document](entry)
	if err == nil {
		_, err = document.Text()
	}
	return err
}

func (o *Operator) recordRevision(ctx context.Context, lease store.Lease, v *view.View, groupName, digest string, p prepared) (changed bool, err error) {
	before, known := v.Revisions[digest]
	after := before.Value
	if known && after.ComposeHash == p.hash {
		return false, nil
	}
	if !known {
		spec, _, _ := v.InForce(groupName)
		if spec.Revision() != digest {
			return false, fmt.Errorf("the spec moved on from revision %.8s before its content was recorded", digest)
		}
		after = group.RevisionRecord{
			Digest: digest, Group: groupName, Template: spec.Template, AgentSpec: spec.AgentSpec(), RestartToken: spec.RestartToken, CreatedAt: o.cfg.Now().UTC(),
			Number: v.Gate.Groups[groupName].Value.Number(digest),
		}
	}
	after.ComposeHash = p.hash
	// An unreadable record is written again, with the content of its digest.
	put, err := store.Put(store.RevisionKey(digest), after, v.IndexOf(store.RevisionKey(digest), before.Index))
	if err != nil {
		return false, err
	}
	if err := o.cfg.Store.Commit(ctx, append(lease.Fence(), put)...); err != nil {
		return false, fmt.Errorf("record revision %s: %w", digest, err)
	}
	o.cfg.Log.Info("revision recorded", "group", groupName, "revision", digest, "compose_hash", p.hash, "term", lease.Term())
	return true, nil
}

// TidyPolicies makes each Slot's policy name the CVM that its record is bound to. Without an open
// Operation the policy allows only the Slot's assigned Revision and its proven one.
func (o *Operator) TidyPolicies(ctx context.Context, lease store.Lease, v *view.View, groupName string) (changed bool, err error) {
	for _, record := range v.SlotsOf(groupName) {
		before, ok := v.Policies[record.Slot]
		if !ok {
			continue
		}
		after := before.Value
		if formerly(record, after.InstanceID) {
			after.InstanceID = "" // replaced: no Boot of that CVM may hold the Slot any more
		}
		if record.InstanceID != "" {
			after.InstanceID = record.InstanceID
			if record.AppID != "" {
				after.AppID = record.AppID
			}
		}
		if _, open := v.OpenOperation(record.Slot); !open {
			after = after.Settled(record.Assigned, v.Admissions[record.Slot].Value.Revision)
		}
		wrote, err := o.putPolicy(ctx, lease, v, before, after, false)
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

// formerly: the instance filled the Slot before, and no longer does.
func formerly(record group.SlotRecord, instance string) bool {
	return instance != "" && instance != record.InstanceID &&
		slices.ContainsFunc(record.Lineage, func(p group.Past) bool { return p.InstanceID == instance })
}
