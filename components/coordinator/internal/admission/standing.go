package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// Standing implements AdmissionService. A Boot that was replaced while it was
// paused or cut off finds no coordinator that lets it in; here it learns why. The
// caller learns about its own key and nothing else.
func (c *contact) Standing(ctx context.Context, req *admissionv1.StandingRequest) (*admissionv1.StandingResponse, error) {
	if c.challenges.Add(1) > maxExchanges {
		return nil, refuse(codeRate, "this connection asked often enough; make another one").later().public()
	}
	sum := sha256.Sum256(c.bootKey)
	ended, err := Ended(ctx, c.store, req.GetGroup(), req.GetSlot(), hex.EncodeToString(sum[:]))
	if err != nil {
		return nil, refuse(codeGate, "records are not readable now").later().public()
	}
	return &admissionv1.StandingResponse{Holds: ended.Code == "", Code: string(ended.Code), Message: ended.Message}, nil
}

// Ended says, by consistent reads, why the Boot no longer is the Slot; its Code is
// empty while it is. A Boot that never was gets the same answer as one that was
// replaced.
func Ended(ctx context.Context, s store.Store, group, slot, bootID string) (policy.Decision, error) {
	a, _, err := store.Read[policy.Admission](ctx, s, store.AdmissionKey(slot))
	absent := errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrBadKey)
	switch {
	case err != nil && !absent:
		return policy.Decision{}, err
	case err == nil && a.BootID == bootID && a.Group == group:
		return policy.Decision{Allowed: true}, nil
	}
	decisions, _, err := store.Read[policy.Decisions](ctx, s, store.DecisionsKey(slot))
	if e, evicted := decisions.Evicted(bootID); err == nil && evicted {
		return policy.Decision{Code: e.Code, Message: e.Message}, nil
	}
	return policy.Decision{Code: policy.CodeIncarnationStale, Message: "this boot does not hold the slot any more"}, nil
}
