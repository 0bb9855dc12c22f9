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

// New makes the service.
func New(keys Keys, s store.Store) *Service { return &Service{keys: keys, store: s} }

// Values are what a Slot is given: the secrets of its group, all Slots the same, and
// Consul's gossip key in the form that Consul takes.
type Values struct {
	Secrets     []*admissionv1.Secret
	Gossip      string
	GossipEpoch uint32
	// Checks pass while these values are in force. Values of a View are given away once
	// they passed: a value is never older than the epoch that a caller was told of.
	Checks []store.Op
}

// For are the values for a Slot whose group has spec, what it declares and what its
// workload implies. v says which epochs are in force; nil: they are read.
func (s *Service) For(ctx context.Context, v *view.View, spec group.Spec) (Values, error) {
	wanted := spec.AllSecrets()
	epochs, gossip, out, err := s.epochs(ctx, v, spec.Name, wanted)
	if err != nil {
		return Values{}, err
	}
	out.Secrets = make([]*admissionv1.Secret, 0, len(wanted))
	for _, one := range wanted {
		epoch := max(epochs[one.Name], firstEpoch)
		value, err := s.keys.Secret(ctx, spec.Name, one.Name, epoch, one.Bytes)
		if err != nil {
			return Values{}, fmt.Errorf("secret %s of group %s: %w", one.Name, spec.Name, err)
		}
		made := &admissionv1.Secret{Name: one.Name, Value: encode(value, one.Format), Epoch: epoch}
		if one.Mode != "" {
			// Validated when the spec was taken.
			made.Mode, _ = one.FileMode()
			made.Uid, made.Gid, _ = one.FileOwner()
		}
		out.Secrets = append(out.Secrets, made)
	}
	out.GossipEpoch = max(gossip, firstEpoch)
	value, err := s.keys.Gossip(ctx, out.GossipEpoch)
	if err != nil {
		return Values{}, err
	}
	out.Gossip = value.RevealString()
	return out, nil
}

// epochs of the wanted secrets and of the gossip key, 0 where there is no record, and
// the checks that go with those of a View.
func (s *Service) epochs(ctx context.Context, v *view.View, groupName string, wanted []group.Secret) (epochs map[string]uint32, gossip uint32, out Values, err error) {
	if v == nil {
		if len(wanted) > 0 {
			if epochs, err = s.Epochs(ctx, groupName); err != nil {
				return nil, 0, Values{}, err
			}
		}
		gossip, err = s.gossipEpoch(ctx)
		return epochs, gossip, Values{}, err
	}
	epochs = make(map[string]uint32, len(wanted))
	for _, one := range wanted {
		name := view.SecretName{Group: groupName, Name: one.Name}
		epochs[one.Name] = v.Secrets[name].Value.Epoch
		out.Checks = append(out.Checks, inForce(v, name))
	}
	out.Checks = append(out.Checks, inForce(v, view.GossipKey))
	return epochs, v.Secrets[view.GossipKey].Value.Epoch, out, nil
}

// inForce checks that the record of a secret is the one of v. One that v cannot read
// is not absent, so that epoch 1 is not taken for it.
func inForce(v *view.View, name view.SecretName) store.Op {
	key := store.SecretKey(name.Group, name.Name)
	if rec, ok := v.Secrets[name]; ok {
		return store.Op{Kind: store.OpCheckIndex, Key: key, Index: rec.Index}
	}
	return store.Op{Kind: store.OpCheckAbsent, Key: key}
}

// Epochs of a group's secrets by name; one without a record is left out.
func (s *Service) Epochs(ctx context.Context, groupName string) (map[string]uint32, error) {
	records, _, err := store.ReadAll[store.SecretRecord](ctx, s.store, store.SecretsOf(groupName))
	if err != nil {
		// An unreadable record too: taking epoch 1 instead would bring an old value back.
		return nil, fmt.Errorf("read epochs of the secrets of group %s: %w", groupName, err)
	}
	out := map[string]uint32{}
	for _, r := range records {
		if r.Key != store.SecretKey(groupName, r.Value.Name) {
			return nil, fmt.Errorf("record %s names the secret %q", r.Key, r.Value.Name)
		}
		out[r.Value.Name] = r.Value.Epoch
	}
	return out, nil
}

// gossipEpoch is the epoch in force of the gossip key; 0 while there is no record.
func (s *Service) gossipEpoch(ctx context.Context) (uint32, error) {
	record, _, err := store.Read[store.SecretRecord](ctx, s.store, store.SecretKey(store.ClusterSecrets, store.GossipSecret))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, fmt.Errorf("read epoch of the gossip key: %w", err)
	}
	return record.Epoch, nil
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
