package admission

import (
	"context"
	"errors"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Unbound finds the Slot whose records are lost and that the platform names the CVM of an
// instance after; ok is false when there is none. What it says gives nobody anything.
type Unbound func(ctx context.Context, v *view.View, appID, instanceID string) (groupName, slot string, ok bool)

// unbound bounds the look for such a Slot: it may ask the platform, so that one caller at
// a time does, and whoever else asks comes back.
func (s *Service) unbound(ctx context.Context, v *view.View, appID, instanceID string) (groupName, slot string, ok bool) {
	if s.cfg.Unbound == nil {
		return "", "", false
	}
	select {
	case s.lookups <- struct{}{}:
		defer func() { <-s.lookups }()
	default:
		return "", "", false
	}
	groupName, slot, ok = s.cfg.Unbound(ctx, v, appID, instanceID)
	return groupName, slot, ok && groupName != group.Coordinators
}

// proveUnbound keeps what genuine evidence of an unbound instance says, and refuses it:
// only an operator binds it. What nobody could adopt is refused for that.
func (a *attempt) proveUnbound(ctx context.Context, claims policy.Claims) *refusal {
	a.claims = claims
	stated := policy.Statement{
		Cluster: a.stated.Cluster, Group: a.stated.Group, Slot: a.stated.Slot,
		AppID: a.stated.AppID, InstanceID: a.stated.InstanceID, ComposeHash: a.stated.ComposeHash,
	}
	// As if it were bound and nothing allowed: every other question is asked before that one.
	bound := policy.SlotPolicy{Group: a.stated.Group, Slot: a.slot, AppID: claims.AppID, InstanceID: claims.InstanceID}
	revoked, err := view.Revocations(ctx, a.store)
	if err != nil {
		return refuse(codeGate, "%v", err).later()
	}
	v, _ := a.cfg.Views.Latest()
	if d := policy.Appraise(bound.Revoking(revoked), v.Judging(a.cfg.Images), stated, claims, a.now()); d.Code != policy.CodeRevisionNotAllowed {
		return refuse(d.Code, "%s", d.Message)
	}
	a.keepProof(ctx, claims)
	return refuse(codeUnknown, "the records of slot %s are lost, so no slot is bound to this instance: an operator binds it with `cadre group adopt %s`", a.slot, a.stated.Group).later()
}

// proofEvery is how often an unchanged Proof is written again.
const proofEvery = time.Minute

func (a *attempt) keepProof(ctx context.Context, claims policy.Claims) {
	p, ok := policy.NewProof(a.stated.Group, a.slot, a.bootID, a.vip, claims)
	if !ok {
		a.log.Warn("what a boot proved does not fit a record", "slot", a.slot)
		return
	}
	p.At, p.By = a.now().UTC(), a.self
	key := store.ProofKey(a.slot)
	before, index, err := store.Read[policy.Proof](ctx, a.store, key)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound) && len(store.RecordErrors(err)) == 0:
		a.log.Warn("what a boot proved is not recorded", "slot", a.slot, "error", err)
		return
	case err == nil && before.Same(p) && p.At.Sub(before.At) < proofEvery && !p.At.Before(before.At):
		return
	}
	op, err := store.Put(key, p, index)
	if err == nil {
		err = a.store.Commit(ctx, op)
	}
	if err != nil && !errors.Is(err, store.ErrConflict) {
		a.log.Warn("what a boot proved is not recorded", "slot", a.slot, "error", err)
		return
	}
	a.log.Info("boot of an unbound instance attested", "slot", a.slot, "instance", p.Claims.InstanceID, "compose_hash", p.Claims.ComposeHash, "boot", a.bootID)
}
