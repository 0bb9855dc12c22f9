package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// ReadGroup reads at one moment the records that a decision about one group needs: the group's own,
// and the records that concern every group (the operators' switches, the Lease, the cluster's
// secrets). Revisions never change, so the View latest provides them; missing ones are read by key.
// latest also provides the age of content from other groups' policies. With a nil latest ReadGroup
// is Read.
//
// before is the previous result for the same group, or its Own; nil: none. The new View shares
// every unchanged kind with it.
//
// The View has no records of other groups: do not ask for them.
func ReadGroup(ctx context.Context, s store.Store, name string, latest, before *View) (*View, error) {
	if latest == nil {
		return Read(ctx, s)
	}
	entries, err := s.Together(ctx, groupKeys(name)...)
	if err != nil {
		return nil, fmt.Errorf("read the records of group %s: %w", name, err)
	}
	own := slices.DeleteFunc(entries, func(e store.Entry) bool { return foreign(e.Key, name) })
	v, anew := &View{}, before == nil || before.turn == 0
	if !anew {
		*v = *before
	}
	v.own, v.others, v.turn, v.zero = name, latest, latest.turn, latest.zero
	changed := anew || before.turn != latest.turn || before.lacked
	for _, k := range kinds {
		of := k.of(own)
		sum := sumOf(of)
		if !anew && sum == before.sums[k.id] {
			continue
		}
		v.take(ctx, k, moment{entries: of, known: latest.said[k.id]})
		v.sums[k.id], changed = sum, true
		// Rollouts and Operations name their group in the record; their keys may be ambiguous.
		switch k.id { //nolint:exhaustive // the keys of the others do
		case kindOperations:
			all := len(v.Operations)
			maps.DeleteFunc(v.Operations, func(_ string, o Rec[operation.Operation]) bool { return o.Value.Group != name })
			if len(v.Operations) != all {
				v.bySlot = bySlot(v.Operations)
			}
		case kindSlots:
			v.slots = slotsOf(v.Slots, name)
		case kindRollouts:
			maps.DeleteFunc(v.Rollouts, func(_ string, r Rec[operation.Rollout]) bool { return r.Value.Group != name })
		}
	}
	if !changed {
		return v, nil
	}
	v.Index = 0
	for _, e := range own {
		v.Index = max(v.Index, e.Index)
	}
	return v, v.readRevisions(ctx, s, name)
}

// Same reports whether v and other are known to have the same records of the same group.
func (v *View) Same(other *View) bool {
	return other != nil && v.own != "" && v.own == other.own && v.turn != 0 && v.turn == other.turn && v.sums == other.sums && !v.lacked && !other.lacked
}

// Own returns the View of one group without the View of the others. A caller that keeps it until
// the next ReadGroup does not keep the Watcher's Views alive.
func (v *View) Own() *View {
	out := *v
	out.others = nil
	return &out
}

// All returns the View of all groups: ReadGroup's input, or v itself.
func (v *View) All() *View {
	if v.others != nil {
		return v.others
	}
	return v
}

// groupKeys lists the keys and prefixes that ReadGroup reads, in the store's order, so that the
// entries come back sorted.
func groupKeys(name string) []string {
	of := func(prefix string) string { return prefix + name + "-" + store.Below }
	return []string{
		store.AddressesKey(name), of(store.AdmissionsPrefix), store.ControlPrefix + store.Below, store.GroupsPrefix + name + "/" + store.Below,
		of(store.BootLeasePrefix), store.LeaseKey, store.StateKey, store.TermKey, of(store.MachinesPrefix), of(store.OperationsPrefix), store.GroupPolicyKey(name), of(store.PolicyPrefix), store.TCBLedgerKey,
		of(store.ProofsPrefix), of(store.RefusalsPrefix), of(store.RolloutsPrefix), store.SecretsOf(store.ClusterSecrets) + store.Below, store.SecretsOf(name) + store.Below,
		store.SlotsOf(name) + store.Below,
	}
}

// foreign reports whether a key belongs to a group whose name starts with name, for example web-api
// for web.
func foreign(key, name string) bool {
	for _, prefix := range []string{store.PolicyPrefix, store.AdmissionsPrefix, store.BootLeasePrefix, store.RefusalsPrefix, store.ProofsPrefix, store.MachinesPrefix} {
		if slot, is := strings.CutPrefix(key, prefix); is {
			return !ofGroup(slot, name)
		}
	}
	return false
}

// readRevisions takes from the latest View the Revisions that belong to the group or that its
// records name. It reads missing ones by key.
func (v *View) readRevisions(ctx context.Context, s store.Store, name string) error {
	wanted := v.named(name)
	for digest, r := range v.others.Revisions {
		if r.Value.Group == name {
			wanted[digest] = true
		}
	}
	delete(wanted, "")
	v.badOf[kindRevisions] = nil
	v.Revisions = make(map[string]Rec[group.RevisionRecord], len(wanted))
	var missing []string
	for _, digest := range slices.Sorted(maps.Keys(wanted)) {
		if r, ok := v.others.Revisions[digest]; ok {
			v.Revisions[digest] = r
			continue
		}
		missing = append(missing, digest)
	}
	// The order in a group's policy keeps Revisions whose records were removed long ago; these are
	// never written again.
	named := v.RevisionsNamed()
	v.lacked = slices.ContainsFunc(missing, func(digest string) bool { return named[digest] })
	for some := range slices.Chunk(missing, store.MaxTogether) {
		keys := make([]string, 0, len(some))
		for _, digest := range some {
			keys = append(keys, store.RevisionKey(digest))
		}
		entries, err := s.Together(ctx, keys...)
		if err != nil {
			return fmt.Errorf("read the revisions of group %s: %w", name, err)
		}
		read := made(ctx, moment{entries: entries}, kinds[kindRevisions:kindRevisions+1])
		maps.Copy(v.Revisions, read.Revisions)
		v.badOf[kindRevisions] = append(v.badOf[kindRevisions], read.badOf[kindRevisions]...)
	}
	v.collectBad()
	return nil
}

// named returns the Revisions that a pass about the group looks up: those in its records, the
// failed ones, and those in the order of its policy.
func (v *View) named(name string) map[string]bool {
	out := v.RevisionsNamed()
	for _, digest := range v.Statuses[name].Value.FailedRevisions {
		out[digest] = true
	}
	for digest := range v.Gate.Groups[name].Value.Revisions {
		out[digest] = true
	}
	return out
}

// ReadMembers reads the Slots and admissions of all groups at one moment. The list of groups comes
// from latest; with a nil latest everything is read.
func ReadMembers(ctx context.Context, s store.Store, latest *View) (*View, error) {
	if latest == nil {
		return Read(ctx, s)
	}
	of := []kind{kinds[kindSlots], kinds[kindAdmissions]}
	entries, err := s.Together(ctx, prefixesOf(of)...)
	if err != nil {
		return nil, fmt.Errorf("read the members of all groups: %w", err)
	}
	v := readAfter(ctx, latest, entries, of)
	v.Specs, v.Accepted = latest.Specs, latest.Accepted
	return v, nil
}

// ReadAddresses reads the records that name virtual addresses, of all groups at one moment.
func ReadAddresses(ctx context.Context, s store.Store) (*View, error) {
	of := []kind{kinds[kindSlots], kinds[kindAddresses], kinds[kindProofs]}
	entries, err := s.Together(ctx, prefixesOf(of)...)
	if err != nil {
		return nil, fmt.Errorf("read the addresses of all groups: %w", err)
	}
	return made(ctx, moment{entries: entries}, of), nil
}
