package view

import (
	"context"
	"fmt"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// SecretName names a secret in the cluster. Group is store.ClusterSecrets for the
// cluster's own keys.
type SecretName struct{ Group, Name string }

// GossipKey is the gossip key of the coordinators' Consul servers.
var GossipKey = SecretName{Group: store.ClusterSecrets, Name: store.GossipSecret}

// readSecrets reads the epochs.
func (v *View) readSecrets(ctx context.Context, at moment, errs *[]error) {
	v.Secrets = map[SecretName]Rec[store.SecretRecord]{}
	for key, rec := range keyed[store.SecretRecord](ctx, at, store.SecretsPrefix, errs) {
		name := SecretName{Group: rec.Value.Group, Name: rec.Value.Name}
		if key != store.SecretKey(name.Group, name.Name) {
			*errs = append(*errs, &store.RecordError{Key: key, Index: rec.Index, Err: fmt.Errorf("names %s/%s", name.Group, name.Name)})
			continue
		}
		v.Secrets[name] = rec
	}
}

// readRotates reads the requests for new epochs. A request counts by its key, regardless of its
// value: a plain KV edit works like the API.
func (v *View) readRotates(ctx context.Context, at moment, errs *[]error) {
	v.Rotates = map[SecretName]Rec[store.RotateRequest]{}
	requests := keyed[store.RotateRequest](ctx, at, store.RotatePrefix, errs)
	for _, e := range at.entries {
		rest, ok := strings.CutPrefix(e.Key, store.RotatePrefix)
		groupName, name, both := strings.Cut(rest, "/")
		if !ok || !both {
			continue
		}
		v.Rotates[SecretName{Group: groupName, Name: name}] = Rec[store.RotateRequest]{Value: requests[e.Key].Value, Index: e.Index}
	}
}

// readSeals reads the sealed values that wait for the leader. A request that is unreadable, or names
// another secret than its key, has no ciphertext: the leader deletes it.
func (v *View) readSeals(ctx context.Context, at moment) {
	v.Seals = map[SecretName]Rec[store.SealRequest]{}
	var unread []error
	requests := keyed[store.SealRequest](ctx, at, store.SealPrefix, &unread)
	for _, e := range at.entries {
		rest, ok := strings.CutPrefix(e.Key, store.SealPrefix)
		groupName, name, both := strings.Cut(rest, "/")
		if !ok || !both {
			continue
		}
		rec := Rec[store.SealRequest]{Value: requests[e.Key].Value, Index: e.Index}
		if rec.Value.Group != groupName || rec.Value.Name != name {
			rec.Value = store.SealRequest{}
		}
		v.Seals[SecretName{Group: groupName, Name: name}] = rec
	}
}

// NoValue returns the names of the secrets of spec whose value an operator has yet to give, sorted. A
// secret with an unreadable record is not among them.
func (v *View) NoValue(spec group.Spec) []string {
	var out []string
	for _, one := range spec.AllSecrets() {
		name := SecretName{Group: spec.Name, Name: one.Name}
		if one.Sealed() && v.Secrets[name].Value.Sealed == (store.SealedRef{}) && !v.Unreadable(store.SecretKey(name.Group, name.Name)) {
			out = append(out, one.Name)
		}
	}
	return out
}

// EpochsOf returns the current epochs of a group's secrets that have a record, and the highest
// index of those records. Unreadable records count in the index: a record that becomes unreadable
// is a change.
func (v *View) EpochsOf(groupName string) (epochs map[string]uint32, index uint64) {
	epochs = map[string]uint32{}
	for name, rec := range v.Secrets {
		if name.Group == groupName {
			epochs[name.Name] = rec.Value.Epoch
			index = max(index, rec.Index)
		}
	}
	return epochs, max(index, v.badIndex(store.SecretsOf(groupName)))
}

// badIndex is the highest index of the unreadable records below prefix.
func (v *View) badIndex(prefix string) (index uint64) {
	for _, bad := range v.Bad {
		if strings.HasPrefix(bad.Key, prefix) {
			index = max(index, bad.Index)
		}
	}
	return index
}

// secretProblems returns the secrets of the spec without a value, and the unreadable records of its
// secrets.
func (v *View) secretProblems(spec group.Spec) []policy.Problem {
	needed := map[string]bool{}
	for _, one := range spec.AllSecrets() {
		needed[store.SecretKey(spec.Name, one.Name)] = true
	}
	var out []policy.Problem
	for _, name := range v.NoValue(spec) {
		out = append(out, policy.Problem{Reason: string(policy.CodeSecretNoValue), Message: fmt.Sprintf(
			"secret %s has no value, and no boot is admitted without it: cadre secret set %s/%s --from-file FILE", name, spec.Name, name)})
	}
	for _, bad := range v.Bad {
		if needed[bad.Key] {
			out = append(out, policy.Problem{Reason: policy.ProblemUnreadable, Message: bad.Error() + "; a running member keeps its value, " +
				"and no new boot is admitted until the record is repaired. Without it the secret would begin at epoch 1 again: write it with an epoch above the last one, do not delete it"})
		}
	}
	return out
}
