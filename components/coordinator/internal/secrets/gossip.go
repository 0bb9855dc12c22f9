package secrets

import (
	"context"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/secret"
	"cadre.dev/store"
)

// gossip begins a due rotation of the gossip key, or carries out the next step of one. Each step is
// recorded before it begins and can be repeated, so another leader continues from any point.
func (r *Rotator) gossip(ctx context.Context, lease store.Lease, v *view.View) (time.Duration, error) {
	now := r.cfg.Now().UTC()
	rec, exists := v.Secrets[view.GossipKey]
	key := store.SecretKey(view.GossipKey.Group, view.GossipKey.Name)
	if !exists {
		if bad(v, key) {
			// Its epoch is unknown: any action now could cut all members off.
			return resync, nil
		}
		return stepEvery, r.write(ctx, lease.Fence(), begin(view.GossipKey.Group, view.GossipKey.Name, now), 0)
	}
	if rec.Value.Step != store.RotationRest {
		return r.step(ctx, lease, rec, now)
	}
	request, asked := v.Rotates[view.GossipKey]
	reason, by, yes := due(rec.Value, ask(request.Value, asked), GossipEvery, now)
	if !yes {
		in := min(resync, max(rec.Value.RotatedAt.Add(GossipEvery).Sub(now), stepEvery))
		if same, err := r.compared(ctx, lease, rec, now); !same || err != nil {
			return stepEvery, err
		}
		return in, nil
	}
	ops := lease.Fence()
	if asked {
		ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.RotateKey(view.GossipKey.Group, view.GossipKey.Name), Index: request.Index})
	}
	next := start(rec.Value, reason, by, now)
	if err := r.write(ctx, ops, next, rec.Index); err != nil {
		return 0, err
	}
	r.log.Info("gossip key rotation begins", "epoch", next.Next, "reason", next.Reason)
	return 0, nil
}

// step carries out the recorded step and records the next one if the step had its effect.
func (r *Rotator) step(ctx context.Context, lease store.Lease, rec view.Rec[store.SecretRecord], now time.Time) (time.Duration, error) {
	call, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := r.do(call, rec.Value); err != nil {
		return 0, err
	}
	ring, err := r.ring(call, rec.Value)
	if err != nil {
		return 0, err
	}
	next := advance(rec.Value, ring, now)
	if next == rec.Value {
		return stepEvery, nil
	}
	r.cfg.Failpoint("gossip-" + string(rec.Value.Step) + "-done")
	if err := r.write(ctx, lease.Fence(), next, rec.Index); err != nil {
		return 0, err
	}
	r.log.Info("gossip key rotation", "step", string(next.Step), "epoch", next.Epoch, "members", ring.Members)
	return 0, nil
}

// compared checks once in each Term whether the members have exactly the recorded key in force. Two
// faults can leave other keys: a member was away during a removal, or a leader that lost its Lease
// in the middle of a call had its effect after the record moved on. In that case compared returns
// false, and records the last step of a rotation to be carried out again.
func (r *Rotator) compared(ctx context.Context, lease store.Lease, rec view.Rec[store.SecretRecord], now time.Time) (bool, error) {
	if r.comparedIn == lease.Term() || now.Before(r.compareAt) {
		return true, nil
	}
	call, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	ring, err := r.ring(call, rec.Value)
	switch {
	case ctx.Err() != nil:
		return true, nil
	case err != nil:
		// One member that does not answer must not cause frequent requests to all of them.
		r.compareAt = now.Add(resync)
		r.log.Warn("gossip keys of the members not compared with the epoch in force", "epoch", rec.Value.Epoch, "error", err)
		return true, nil
	case ring.only(rec.Value.Epoch):
		r.comparedIn = lease.Term()
		return true, nil
	}
	r.log.Warn("gossip members do not hold the key in force alone; the rotation's last step is repeated", "epoch", rec.Value.Epoch,
		"members", ring.Members, "sending", ring.Primary[rec.Value.Epoch], "other_keys", ring.Others)
	return false, r.write(ctx, lease.Fence(), finish(rec.Value, now), rec.Index)
}

// do carries out a step. New members have only the key that was in force at their admission, so
// each step includes the effects of the earlier ones.
func (r *Rotator) do(ctx context.Context, rec store.SecretRecord) error {
	type act func(context.Context, secret.Value) error
	ring := r.cfg.Keyring
	var acts []act
	target := rec.Epoch
	switch rec.Step {
	case store.RotationInstall:
		target, acts = rec.Next, []act{ring.Install}
	case store.RotationUse:
		target, acts = rec.Next, []act{ring.Install, ring.Use}
	case store.RotationSettle, store.RotationRemove:
		acts = []act{ring.Install, ring.Use}
	case store.RotationRest:
	}
	keys, err := r.derived(ctx, target)
	if err != nil {
		return err
	}
	for _, one := range acts {
		if err := one(ctx, keys[0]); err != nil {
			return err
		}
	}
	if rec.Step != store.RotationRemove {
		return nil
	}
	held, err := ring.Keys(ctx, keys)
	if err != nil {
		return err
	}
	// These are the previous key, and keys of earlier rotations that a member missed.
	for _, other := range held.Others {
		if err := ring.Remove(ctx, other); err != nil {
			return err
		}
	}
	return nil
}

// ring asks all members for their keys.
func (r *Rotator) ring(ctx context.Context, rec store.SecretRecord) (Ring, error) {
	epochs := []uint32{rec.Epoch}
	for _, e := range []uint32{rec.Next, rec.Previous} {
		if e != 0 {
			epochs = append(epochs, e)
		}
	}
	keys, err := r.derived(ctx, epochs...)
	if err != nil {
		return Ring{}, err
	}
	held, err := r.cfg.Keyring.Keys(ctx, keys)
	if err != nil {
		return Ring{}, err
	}
	out := Ring{Members: held.Members, Holding: map[uint32]int{}, Primary: map[uint32]int{}, Others: len(held.Others)}
	for i, e := range epochs {
		out.Holding[e], out.Primary[e] = held.Holding[i], held.Primary[i]
	}
	return out, nil
}
