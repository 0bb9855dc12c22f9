package secrets

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/secret"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// Keys derives values; keys.Root implements it.
type Keys interface {
	Secret(ctx context.Context, group, name string, epoch uint32, size int) (secret.Value, error)
	Gossip(ctx context.Context, epoch uint32) (secret.Value, error)
}

// firstEpoch is the epoch of a secret without a record.
const firstEpoch = 1

// Service delivers the values in force. Safe for concurrent use.
type Service struct {
	keys  Keys
	store store.Store
}

// New returns a Service.
func New(keys Keys, s store.Store) *Service { return &Service{keys: keys, store: s} }

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
// would restore an old value. With any other error no value is returned.
func (s *Service) For(ctx context.Context, v *view.View, spec group.Spec) (Values, error) {
	wanted := spec.AllSecrets()
	known, out, err := s.epochs(ctx, v, spec.Name, wanted)
	if err != nil {
		return Values{}, err
	}
	var unread []error
	out.Secrets = make([]*admissionv1.Secret, 0, len(wanted))
	for _, one := range wanted {
		key := store.SecretKey(spec.Name, one.Name)
		if err := known.bad[key]; err != nil {
			unread = append(unread, err)
			continue
		}
		made, err := s.secret(ctx, spec.Name, one, max(known.epochs[key], firstEpoch))
		if err != nil {
			return Values{}, err
		}
		out.Secrets = append(out.Secrets, made)
	}
	return out, errors.Join(unread...)
}

// secret returns one value of a group in the form that its spec asks for.
func (s *Service) secret(ctx context.Context, groupName string, one group.Secret, epoch uint32) (*admissionv1.Secret, error) {
	value, err := s.keys.Secret(ctx, groupName, one.Name, epoch, one.Bytes)
	if err != nil {
		return nil, fmt.Errorf("secret %s of group %s: %w", one.Name, groupName, err)
	}
	made := &admissionv1.Secret{Name: one.Name, Value: encode(value, one.Format), Epoch: epoch}
	if one.Mode != "" {
		// These were validated when the spec was accepted.
		made.Mode, _ = one.FileMode()
		made.Uid, made.Gid, _ = one.FileOwner()
	}
	return made, nil
}

// known has the epochs in force by their records' keys, 0 without a record, and the unreadable
// records.
type known struct {
	epochs map[string]uint32
	bad    map[string]error
}

// epochs returns the epochs of the wanted secrets, with the checks for those of a View.
func (s *Service) epochs(ctx context.Context, v *view.View, groupName string, wanted []group.Secret) (known, Values, error) {
	k := known{epochs: map[string]uint32{}, bad: map[string]error{}}
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
		k.epochs[store.SecretKey(name.Group, name.Name)] = v.Secrets[name].Value.Epoch
		out.Checks = append(out.Checks, inForce(v, name))
	}
	for _, one := range wanted {
		take(view.SecretName{Group: groupName, Name: one.Name})
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
		k.epochs[r.Key] = r.Value.Epoch
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
