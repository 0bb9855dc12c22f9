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

// Unbound finds the Slot whose records are lost and that the platform's name of the instance's CVM
// refers to; ok is false if there is none. Its answer grants no rights.
type Unbound func(ctx context.Context, v *view.View, appID, instanceID string) (groupName, slot string, ok bool)

// unbound bounds the search for such a Slot. The search may call the platform, so one caller at a
// time searches, and the others retry.
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

// proveUnbound stores the claims of genuine evidence of an unbound instance, and refuses it: only
// an operator binds the instance. Evidence that no operator could adopt gets the precise refusal.
func (a *attempt) proveUnbound(ctx context.Context, claims policy.Claims) *refusal {
	a.claims = claims
	stated := policy.Statement{
		Cluster: a.stated.Cluster, Group: a.stated.Group, Slot: a.stated.Slot,
		AppID: a.stated.AppID, InstanceID: a.stated.InstanceID, ComposeHash: a.stated.ComposeHash,
	}
	// The policy binds the instance and allows no Revision: Appraise makes all other checks first.
	bound := policy.SlotPolicy{Group: a.stated.Group, Slot: a.slot, AppID: claims.AppID, InstanceID: claims.InstanceID}
	revoked, err := view.Revocations(ctx, a.store)
	if err != nil {
		return refuse(codeUnreadable, "%v", err).later()
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
		a.log.Warn("the proof of a boot does not fit a record", "slot", a.slot)
		return
	}
	p.At, p.By = a.now().UTC(), a.self
	key := store.ProofKey(a.slot)
	before, index, err := store.Read[policy.Proof](ctx, a.store, key)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound) && len(store.RecordErrors(err)) == 0:
		a.log.Warn("the proof of a boot is not recorded", "slot", a.slot, "error", err)
		return
	case err == nil && before.Same(p) && p.At.Sub(before.At) < proofEvery && !p.At.Before(before.At):
		return
	}
	op, err := store.Put(key, p, index)
	if err == nil {
		err = a.store.Commit(ctx, op)
	}
	if err != nil && !errors.Is(err, store.ErrConflict) {
		a.log.Warn("the proof of a boot is not recorded", "slot", a.slot, "error", err)
		return
	}
	a.log.Info("boot of an unbound instance attested", "slot", a.slot, "instance", p.Claims.InstanceID, "compose_hash", p.Claims.ComposeHash, "boot", a.bootID)
}
