package secrets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/secret"
	"cadre.dev/store"
)

// RotatorConfig of a Rotator. All fields are required.
type RotatorConfig struct {
	Keys    Keys
	Keyring Keyring
	Store   store.Store
	Views   *view.Watcher
	Now     func() time.Time
	// Failpoint is called at each point at which a crash leaves another state behind:
	// "gossip-<step>-done" after a step's effect, before the record.
	Failpoint func(name string)
	Log       *slog.Logger
}

// Rotator raises epochs while this coordinator leads.
type Rotator struct {
	cfg RotatorConfig
	log *slog.Logger

	// State of Lead, which runs once at a time: the Term in which the gossip pool matched the
	// record, and the time of the next comparison after a failed one.
	comparedIn uint64
	compareAt  time.Time
}

// NewRotator makes a Rotator; Lead runs it.
func NewRotator(cfg RotatorConfig) *Rotator { return &Rotator{cfg: cfg, log: cfg.Log} }

// Intervals of the loop.
const (
	// resync is the maximum wait for a change.
	resync = 30 * time.Second
	// stepEvery is the interval of a rotation's steps: members answer through gossip.
	stepEvery = 500 * time.Millisecond
	// errorWait is the pause after an error.
	errorWait = 2 * time.Second
	// stepTimeout bounds one call to all members.
	stepTimeout = 20 * time.Second
)

// Lead raises epochs under the Lease until it or ctx ends.
func (r *Rotator) Lead(ctx context.Context, lease store.Lease) {
	failing := ""
	for ctx.Err() == nil {
		_, changed := r.cfg.Views.Latest()
		in, err := r.pass(ctx, lease)
		switch {
		case ctx.Err() != nil, errors.Is(err, store.ErrFenced):
			return
		case errors.Is(err, store.ErrConflict):
			in = stepEvery // another writer changed the record: read it again
		case err != nil:
			if text := err.Error(); text != failing {
				r.log.Warn("secrets not rotated yet", "term", lease.Term(), "error", err)
				failing = text
			}
			in = errorWait
		default:
			failing = ""
		}
		if in <= errorWait {
			// A step repeats at its own interval, also after other changes.
			changed = nil
		}
		timer := time.NewTimer(in)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// pass evaluates all secrets and does at most one step of the gossip key. It returns the time until
// the next pass.
func (r *Rotator) pass(ctx context.Context, lease store.Lease) (time.Duration, error) {
	// A stale View only makes a write fail on its index.
	v, _ := r.cfg.Views.Latest()
	if v == nil {
		var err error
		if v, err = view.Read(ctx, r.cfg.Store); err != nil {
			return 0, err
		}
	}
	in, err := r.workloads(ctx, lease, v)
	gossipIn, gossipErr := r.gossip(ctx, lease, v)
	return min(in, gossipIn), errors.Join(err, gossipErr)
}

// workloads raises the due epochs of the groups' secrets.
func (r *Rotator) workloads(ctx context.Context, lease store.Lease, v *view.View) (time.Duration, error) {
	now := r.cfg.Now().UTC()
	in := resync
	known := map[view.SecretName]bool{view.GossipKey: true}
	specs := v.SpecsInForce()
	sealed := map[view.SecretName]bool{}
	var errs []error
	for _, groupName := range slices.Sorted(maps.Keys(specs)) {
		for _, one := range specs[groupName].AllSecrets() {
			name := view.SecretName{Group: groupName, Name: one.Name}
			if one.Sealed() {
				// A request to rotate it is dropped below: only an operator has another value.
				sealed[name] = true
				errs = append(errs, r.take(ctx, lease, v, specs[groupName], name, now))
				continue
			}
			known[name] = true
			every, _ := one.Every()
			left, err := r.workload(ctx, lease, v, name, every, now)
			errs = append(errs, err)
			in = min(in, left)
		}
	}
	if v.BadBelow(store.GroupsPrefix) == nil {
		// Otherwise the spec that declares a secret may be the unreadable one.
		errs = append(errs, r.forget(ctx, lease, v, sealed, now))
	}
	for name, request := range v.Rotates {
		if known[name] || v.BadBelow(store.GroupsPrefix) != nil {
			continue // the spec that declares it may be the unreadable one
		}
		r.log.Warn("request to rotate a secret that coordinators do not derive is dropped", "group", name.Group, "secret", name.Name)
		errs = append(errs, r.cfg.Store.Commit(ctx, append(lease.Fence(),
			store.Op{Kind: store.OpDeleteCAS, Key: store.RotateKey(name.Group, name.Name), Index: request.Index})...))
	}
	return in, errors.Join(errs...)
}

func (r *Rotator) workload(ctx context.Context, lease store.Lease, v *view.View, name view.SecretName, every time.Duration, now time.Time) (time.Duration, error) {
	rec, exists := v.Secrets[name]
	request, asked := v.Rotates[name]
	if !exists {
		if bad(v, store.SecretKey(name.Group, name.Name)) {
			// Starting at 1 again would restore a rotated value.
			return resync, nil
		}
		rec.Value = begin(name.Group, name.Name, now)
	}
	reason, by, yes := due(rec.Value, ask(request.Value, asked), every, now)
	if exists && !yes {
		if every == 0 {
			return resync, nil
		}
		return min(resync, max(rec.Value.RotatedAt.Add(every).Sub(now), stepEvery)), nil
	}
	next := rec.Value
	if yes {
		next = raise(next, reason, by, now)
	}
	ops := lease.Fence()
	if asked {
		ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.RotateKey(name.Group, name.Name), Index: request.Index})
	}
	if err := r.write(ctx, ops, next, rec.Index); err != nil {
		return 0, err
	}
	r.log.Info("secret has an epoch", "group", name.Group, "secret", name.Name, "epoch", next.Epoch, "reason", next.Reason)
	return resync, nil
}

func (r *Rotator) write(ctx context.Context, ops []store.Op, rec store.SecretRecord, index uint64) error {
	op, err := store.Put(store.SecretKey(rec.Group, rec.Name), rec, index)
	if err != nil {
		return err
	}
	if err := r.cfg.Store.Commit(ctx, append(ops, op)...); err != nil {
		return fmt.Errorf("record epoch %d of %s/%s: %w", rec.Epoch, rec.Group, rec.Name, err)
	}
	return nil
}

func ask(request store.RotateRequest, asked bool) *store.RotateRequest {
	if !asked {
		return nil
	}
	return &request
}

func bad(v *view.View, key string) bool {
	return slices.ContainsFunc(v.Bad, func(b *store.RecordError) bool { return b.Key == key })
}

// derived returns the keys of epochs, in order.
func (r *Rotator) derived(ctx context.Context, epochs ...uint32) ([]secret.Value, error) {
	var out []secret.Value
	for _, e := range epochs {
		key, err := r.cfg.Keys.Gossip(ctx, e)
		if err != nil {
			return nil, err
		}
		out = append(out, key)
	}
	return out, nil
}
