package secrets

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"cadre.dev/core/group"
	"cadre.dev/core/secret"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// Keys derives values; keys.Root does.
type Keys interface {
	Secret(ctx context.Context, group, name string, epoch uint32, size int) (secret.Value, error)
	Gossip(ctx context.Context, epoch uint32) (secret.Value, error)
}

// firstEpoch is that of a secret without a record.
const firstEpoch = 1

// Service gives out the values in force. Safe for concurrent use.
type Service struct {
	keys  Keys
	store store.Store
}

// New makes the service. s is read at each call, so that a value is never older
// than the epoch that a caller was told of.
func New(keys Keys, s store.Store) *Service { return &Service{keys: keys, store: s} }

// For are the secrets of a Slot with their values: what the spec declares and
// what its workload implies. All Slots of a group get the same values. One whose record
// cannot be read is left out, and the error then holds its *store.RecordError (see
// store.RecordErrors): epoch 1 instead would bring an old value back. With any other
// error nothing is given.
func (s *Service) For(ctx context.Context, spec group.Spec, _ string) ([]*admissionv1.Secret, error) {
	wanted := spec.AllSecrets()
	if len(wanted) == 0 {
		return nil, nil
	}
	epochs, bad, err := s.epochs(ctx, spec.Name)
	if err != nil {
		return nil, err
	}
	var unread []error
	out := make([]*admissionv1.Secret, 0, len(wanted))
	for _, one := range wanted {
		if err := bad[store.SecretKey(spec.Name, one.Name)]; err != nil {
			unread = append(unread, err)
			continue
		}
		epoch := max(epochs[one.Name], firstEpoch)
		value, err := s.keys.Secret(ctx, spec.Name, one.Name, epoch, one.Bytes)
		if err != nil {
			return nil, fmt.Errorf("secret %s of group %s: %w", one.Name, spec.Name, err)
		}
		made := &admissionv1.Secret{Name: one.Name, Value: encode(value, one.Format), Epoch: epoch}
		if one.Mode != "" {
			// Validated when the spec was taken.
			made.Mode, _ = one.FileMode()
			made.Uid, made.Gid, _ = one.FileOwner()
		}
		out = append(out, made)
	}
	return out, errors.Join(unread...)
}

// epochs of a group's secrets by name, one without a record is left out, and the
// records that cannot be read by key.
func (s *Service) epochs(ctx context.Context, groupName string) (epochs map[string]uint32, bad map[string]error, err error) {
	records, _, err := store.ReadAll[store.SecretRecord](ctx, s.store, store.SecretsOf(groupName))
	epochs, bad = map[string]uint32{}, map[string]error{}
	for _, one := range store.RecordErrors(err) {
		bad[one.Key] = one
	}
	if err != nil && len(bad) == 0 {
		return nil, nil, fmt.Errorf("read epochs of the secrets of group %s: %w", groupName, err)
	}
	for _, r := range records {
		if r.Key != store.SecretKey(groupName, r.Value.Name) {
			bad[r.Key] = &store.RecordError{Key: r.Key, Index: r.Index, Err: fmt.Errorf("names the secret %q", r.Value.Name)}
			continue
		}
		epochs[r.Value.Name] = r.Value.Epoch
	}
	return epochs, bad, nil
}

// Gossip is the gossip key in force, in the form that Consul takes, and its epoch.
func (s *Service) Gossip(ctx context.Context) (key string, epoch uint32, err error) {
	record, _, err := store.Read[store.SecretRecord](ctx, s.store, store.SecretKey(store.ClusterSecrets, store.GossipSecret))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", 0, fmt.Errorf("read epoch of the gossip key: %w", err)
	}
	epoch = max(record.Epoch, firstEpoch)
	value, err := s.keys.Gossip(ctx, epoch)
	if err != nil {
		return "", 0, err
	}
	return value.RevealString(), epoch, nil
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
