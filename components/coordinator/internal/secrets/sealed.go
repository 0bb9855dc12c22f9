package secrets

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/sealed"
	"cadre.dev/core/secret"
	"cadre.dev/store"
)

// KeyEpoch is the epoch of the key that operators seal to. Ciphertexts name their key epoch, so an
// earlier key still opens them after a change of this number.
const KeyEpoch uint32 = 1

// maxSkip bounds the epochs that one value skips. Members can have later epochs than restored records.
const maxSkip = 1000

// opened has the last opened value of each secret: each renewal of each Boot needs it.
type opened struct {
	mu   sync.Mutex
	last map[view.SecretName]openedValue // guarded by mu
}

type openedValue struct {
	digest string
	epoch  uint32
	value  secret.Value
}

// get returns the value of rec. A record that names the same ciphertext under another epoch has none: an
// earlier value must not come back under a later epoch.
func (o *opened) get(name view.SecretName, rec store.SecretRecord) (secret.Value, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	has, known := o.last[name]
	return has.value, known && has.digest == rec.Sealed.SHA256 && has.epoch == rec.Epoch
}

func (o *opened) put(name view.SecretName, v openedValue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = map[view.SecretName]openedValue{}
	}
	o.last[name] = v
}

// open returns the operator's value that rec names. A ciphertext that is absent, is another one, or does
// not open, is a *store.RecordError of its record.
func (s *Service) open(ctx context.Context, groupName, secretName string, rec store.SecretRecord) (secret.Value, error) {
	name := view.SecretName{Group: groupName, Name: secretName}
	if value, ok := s.opened.get(name, rec); ok {
		return value, nil
	}
	key := store.SealedKey(groupName, secretName)
	damaged := func(why error) (secret.Value, error) {
		return secret.Value{}, &store.RecordError{Key: key, Err: fmt.Errorf("%w; give the value again: cadre secret set %s/%s --from-file FILE", why, groupName, secretName)}
	}
	text, _, err := store.Read[store.SealedSecret](ctx, s.store, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return damaged(errors.New("the ciphertext is gone"))
	case len(store.RecordErrors(err)) > 0:
		return damaged(err)
	case err != nil:
		return secret.Value{}, fmt.Errorf("read the ciphertext of %s/%s: %w", groupName, secretName, err)
	case text.Group != groupName || text.Name != secretName || text.Epoch != rec.Epoch || sealed.Digest(text.Ciphertext) != rec.Sealed.SHA256:
		return damaged(fmt.Errorf("it is not the ciphertext of epoch %d", rec.Epoch))
	}
	value, err := Open(ctx, s.keys, text)
	if errors.Is(err, sealed.ErrNotOpened) {
		return damaged(err)
	}
	if err != nil {
		return secret.Value{}, err
	}
	s.opened.put(name, openedValue{digest: rec.Sealed.SHA256, epoch: rec.Epoch, value: value})
	return value, nil
}

// Open returns the value of a ciphertext, which opens only as the secret and epoch that it names: else
// sealed.ErrNotOpened. Any other error is the guest agent's.
func Open(ctx context.Context, keys Keys, text store.SealedSecret) (secret.Value, error) {
	if text.KeyEpoch < 1 || text.KeyEpoch > KeyEpoch {
		return secret.Value{}, fmt.Errorf("key epoch %d is unknown: %w", text.KeyEpoch, sealed.ErrNotOpened)
	}
	key, err := keys.Sealing(ctx, text.KeyEpoch)
	if err != nil {
		return secret.Value{}, err
	}
	return key.Open(sealed.Place{ClusterID: keys.ClusterID(), Group: text.Group, Name: text.Name, Epoch: text.Epoch, KeyEpoch: text.KeyEpoch}, text.Ciphertext)
}

// Judge returns why a sealed value cannot become the next epoch of the secret in v; "": it can. spec is
// the group's spec in force. The size of the value follows from its ciphertext, so Judge needs no key.
func Judge(v *view.View, spec group.Spec, text store.SealedSecret) string {
	size, total := len(text.Ciphertext)-sealed.Overhead, 0
	for _, one := range spec.AllSecrets() {
		if one.Sealed() && one.Name != text.Name {
			total += v.Secrets[view.SecretName{Group: spec.Name, Name: one.Name}].Value.Sealed.Bytes
		}
	}
	last := v.Secrets[view.SecretName{Group: text.Group, Name: text.Name}].Value.Epoch
	switch {
	case size < 1:
		return "the value is empty"
	case size > group.MaxSealedBytes:
		return fmt.Sprintf("the value has %d bytes, at most %d are allowed", size, group.MaxSealedBytes)
	case total+size > group.MaxSealedGroupBytes:
		return fmt.Sprintf("the operators' values of group %s would have %d bytes in all, at most %d are allowed", spec.Name, total+size, group.MaxSealedGroupBytes)
	case text.Epoch <= last, text.Epoch-last > maxSkip:
		return fmt.Sprintf("the value is sealed for epoch %d, and the epoch in force is %d", text.Epoch, last)
	}
	return ""
}

// Next returns the epoch for the next value of a secret: above the record and above every member's.
// reported has the latest epoch that members report.
func Next(v *view.View, name view.SecretName, reported uint32) uint32 {
	last := v.Secrets[name].Value.Epoch
	if reported > last && reported-last < maxSkip {
		last = reported
	}
	return last + 1
}

// take puts a requested value of an operator's secret in force. A request that cannot be is deleted: the
// value in force stays.
func (r *Rotator) take(ctx context.Context, lease store.Lease, v *view.View, spec group.Spec, name view.SecretName, now time.Time) error {
	request, asked := v.Seals[name]
	if !asked || bad(v, store.SecretKey(name.Group, name.Name)) {
		return nil // the next epoch is unknown while the record is unreadable
	}
	text := request.Value.SealedSecret
	if text.Name == "" {
		return r.dropSeal(ctx, lease, v, name, "it is unreadable")
	}
	if why := Judge(v, spec, text); why != "" {
		return r.dropSeal(ctx, lease, v, name, why)
	}
	switch _, err := Open(ctx, r.cfg.Keys, text); {
	case errors.Is(err, sealed.ErrNotOpened):
		return r.dropSeal(ctx, lease, v, name, err.Error())
	case err != nil:
		return err
	}
	rec := v.Secrets[name]
	next := rec.Value
	next.Group, next.Name = name.Group, name.Name
	next = raise(next, request.Value.Reason, request.Value.By, now)
	next.Epoch = text.Epoch
	next.Sealed = store.SealedRef{SHA256: sealed.Digest(text.Ciphertext), Bytes: len(text.Ciphertext) - sealed.Overhead}
	put, err := r.putSealed(ctx, text)
	if err != nil {
		return err
	}
	ops := append(lease.Fence(), put, store.Op{Kind: store.OpDeleteCAS, Key: store.SealKey(name.Group, name.Name), Index: request.Index})
	if err := r.write(ctx, ops, next, rec.Index); err != nil {
		return err
	}
	r.log.Info("an operator's secret has a new value", "group", name.Group, "secret", name.Name, "epoch", next.Epoch, "by", next.By)
	return nil
}

// putSealed replaces the ciphertext of a secret.
func (r *Rotator) putSealed(ctx context.Context, text store.SealedSecret) (store.Op, error) {
	key := store.SealedKey(text.Group, text.Name)
	was, err := r.cfg.Store.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Op{}, fmt.Errorf("read the ciphertext of %s/%s: %w", text.Group, text.Name, err)
	}
	return store.Put(key, text, was.Index)
}

func (r *Rotator) dropSeal(ctx context.Context, lease store.Lease, v *view.View, name view.SecretName, why string) error {
	r.log.Warn("a sealed value is refused", "group", name.Group, "secret", name.Name, "reason", why)
	return r.cfg.Store.Commit(ctx, append(lease.Fence(),
		store.Op{Kind: store.OpDeleteCAS, Key: store.SealKey(name.Group, name.Name), Index: v.Seals[name].Index})...)
}

// forget deletes the ciphertexts of secrets that no spec in force declares as an operator's, and raises
// their epochs: a derived value of the same name has an epoch of its own. All specs must be readable.
func (r *Rotator) forget(ctx context.Context, lease store.Lease, v *view.View, declared map[view.SecretName]bool, now time.Time) error {
	var errs []error
	for name, rec := range v.Secrets {
		if rec.Value.Sealed == (store.SealedRef{}) || declared[name] {
			continue
		}
		next := raise(rec.Value, reasonRemoved, bySchedule, now)
		next.Sealed = store.SealedRef{}
		ops := lease.Fence()
		switch was, err := r.cfg.Store.Get(ctx, store.SealedKey(name.Group, name.Name)); {
		case err == nil:
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: was.Key, Index: was.Index})
		case !errors.Is(err, store.ErrNotFound):
			errs = append(errs, err)
			continue
		}
		if err := r.write(ctx, ops, next, rec.Index); err != nil {
			errs = append(errs, err)
			continue
		}
		r.log.Info("the value of an operator's secret is deleted", "group", name.Group, "secret", name.Name)
	}
	for name := range v.Seals {
		if !declared[name] {
			errs = append(errs, r.dropSeal(ctx, lease, v, name, "the group declares no operator's secret of this name"))
		}
	}
	return errors.Join(errs...)
}
