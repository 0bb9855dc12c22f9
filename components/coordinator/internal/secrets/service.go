package secrets

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/sealed"
	"cadre.dev/core/secret"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// Keys derives values; keys.Root implements it.
type Keys interface {
	Secret(ctx context.Context, group, name string, epoch uint32, size int) (secret.Value, error)
	Gossip(ctx context.Context, epoch uint32) (secret.Value, error)
	// Sealing is the key to which operators seal values, and ClusterID the cluster ID of all keys.
	Sealing(ctx context.Context, epoch uint32) (sealed.Key, error)
	ClusterID() string
}

// firstEpoch is the epoch of a secret without a record.
const firstEpoch = 1

// Service delivers the values in force. Safe for concurrent use.
type Service struct {
	keys   Keys
	store  store.Store
	opened opened
}

// New returns a Service.
func New(keys Keys, s store.Store) *Service { return &Service{keys: keys, store: s} }

// NoValueError reports secrets whose value an operator has yet to give. A Boot without them is not
// admitted.
type NoValueError struct {
	Group string
	Names []string
}

// Error names the command for each secret.
func (e *NoValueError) Error() string {
	var ways []string
	for _, name := range e.Names {
		ways = append(ways, fmt.Sprintf("cadre secret set %s/%s --from-file FILE", e.Group, name))
	}
	return fmt.Sprintf("an operator has to give the value of %s first: %s", strings.Join(e.Names, ", "), strings.Join(ways, "; "))
}

// Values are the secrets of a Slot's group, the same for all Slots.
type Values struct {
	Secrets []*admissionv1.Secret
	// Checks pass while these values are in force. Commit them before the values of a View are
	// delivered: then a value is never older than the epoch that a caller has seen.
	Checks []store.Op
}

// For returns the values for a Slot whose group has spec: the declared secrets and those of its
// workload. v has the epochs in force; with nil they are read. A secret with an unreadable record
// is left out, and the error holds its *store.RecordError (see store.RecordErrors): epoch 1 instead
// would restore an old value. A secret without a value is left out too, and the error holds a
// *NoValueError. With any other error no value is returned.
func (s *Service) For(ctx context.Context, v *view.View, spec group.Spec) (Values, error) {
	wanted := spec.AllSecrets()
	known, out, err := s.epochs(ctx, v, spec.Name, wanted)
	if err != nil {
		return Values{}, err
	}
	var unread []error
	none := &NoValueError{Group: spec.Name}
	out.Secrets = make([]*admissionv1.Secret, 0, len(wanted))
	for _, one := range wanted {
		key := store.SecretKey(spec.Name, one.Name)
		if err := known.bad[key]; err != nil {
			unread = append(unread, err)
			continue
		}
		rec := known.records[key]
		if one.Sealed() && rec.Sealed == (store.SealedRef{}) {
			none.Names = append(none.Names, one.Name)
			continue
		}
		made, err := s.secret(ctx, spec.Name, one, rec)
		if len(store.RecordErrors(err)) > 0 {
			unread = append(unread, err)
			continue
		}
		if err != nil {
			return Values{}, err
		}
		out.Secrets = append(out.Secrets, made)
	}
	if len(none.Names) > 0 {
		unread = append(unread, none)
	}
	return out, errors.Join(unread...)
}

// secret returns one value of a group in the form that its spec asks for. rec is the record in force;
// zero: there is none.
func (s *Service) secret(ctx context.Context, groupName string, one group.Secret, rec store.SecretRecord) (*admissionv1.Secret, error) {
	made := &admissionv1.Secret{Name: one.Name, Epoch: max(rec.Epoch, firstEpoch)}
	if one.Sealed() {
		value, err := s.open(ctx, groupName, one.Name, rec)
		if err != nil {
			return nil, err
		}
		made.Value = value.Reveal()
	} else {
		value, err := s.keys.Secret(ctx, groupName, one.Name, made.Epoch, one.Bytes)
		if err != nil {
			return nil, fmt.Errorf("secret %s of group %s: %w", one.Name, groupName, err)
		}
		made.Value = encode(value, one.Format)
	}
	if one.Mode != "" {
		// These were validated when the spec was accepted.
		made.Mode, _ = one.FileMode()
		made.Uid, made.Gid, _ = one.FileOwner()
	}
	return made, nil
}

// known has the records in force by their keys, and the unreadable records.
type known struct {
	records map[string]store.SecretRecord
	bad     map[string]error
}

// epochs returns the epochs of the wanted secrets, with the checks for those of a View.
func (s *Service) epochs(ctx context.Context, v *view.View, groupName string, wanted []group.Secret) (known, Values, error) {
	k := known{records: map[string]store.SecretRecord{}, bad: map[string]error{}}
	if v == nil {
		if len(wanted) > 0 {
			if err := s.read(ctx, groupName, &k); err != nil {
				return known{}, Values{}, err
			}
		}
		return k, Values{}, nil
	}
	var out Values
	take := func(name view.SecretName) {
		k.records[store.SecretKey(name.Group, name.Name)] = v.Secrets[name].Value
		out.Checks = append(out.Checks, inForce(v, name))
	}
	for _, one := range wanted {
		take(view.SecretName{Group: groupName, Name: one.Name})
	}
	for _, bad := range v.Bad {
		// Without this an operator's secret would count as one without a value.
		if slices.ContainsFunc(wanted, func(one group.Secret) bool { return one.Sealed() && bad.Key == store.SecretKey(groupName, one.Name) }) {
			k.bad[bad.Key] = bad
		}
	}
	return k, out, nil
}

// inForce checks that the record of a secret is the one of v. For a record that v cannot read it
// does not check for absence, so epoch 1 is not assumed.
func inForce(v *view.View, name view.SecretName) store.Op {
	key := store.SecretKey(name.Group, name.Name)
	if rec, ok := v.Secrets[name]; ok {
		return store.Op{Kind: store.OpCheckIndex, Key: key, Index: rec.Index}
	}
	return store.Op{Kind: store.OpCheckAbsent, Key: key}
}

// read adds a group's records to k.
func (s *Service) read(ctx context.Context, groupName string, k *known) error {
	records, _, err := store.ReadAll[store.SecretRecord](ctx, s.store, store.SecretsOf(groupName))
	bad := store.RecordErrors(err)
	for _, one := range bad {
		k.bad[one.Key] = one
	}
	if err != nil && len(bad) == 0 {
		return fmt.Errorf("read epochs of the secrets of group %s: %w", groupName, err)
	}
	for _, r := range records {
		if r.Key != store.SecretKey(groupName, r.Value.Name) {
			k.bad[r.Key] = &store.RecordError{Key: r.Key, Index: r.Index, Err: fmt.Errorf("names the secret %q", r.Value.Name)}
			continue
		}
		k.records[r.Key] = r.Value
	}
	return nil
}

func encode(value secret.Value, format group.SecretFormat) []byte {
	raw := value.Reveal()
	switch format {
	case group.SecretRaw:
		return raw
	case group.SecretBase64:
		return []byte(base64.StdEncoding.EncodeToString(raw))
	case group.SecretHex:
	}
	return []byte(hex.EncodeToString(raw))
}
