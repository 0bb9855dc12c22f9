package server

import (
	"context"
	"errors"

	"cadre.dev/attest"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

func newVerifier(cfg Config, records store.Store) (*attest.Verifier, error) {
	source, err := attest.Trust{Collateral: attest.TrustCollateral{PCCSURL: cfg.PCCS}}.CollateralSource()
	if err != nil {
		return nil, err
	}
	return attest.NewVerifier(attest.VerifierConfig{RootsPEM: cfg.RootPEM, Collateral: source, Highest: &marks{records}})
}

// ownEvidence adds collateral to a coordinator's evidence, as package coordinator does.
type ownEvidence struct {
	guest    *attest.GuestClient
	verifier *attest.Verifier
}

// GetQuote implements admission.Quoter.
func (o *ownEvidence) GetQuote(ctx context.Context, reportData []byte) (attest.Evidence, error) {
	ev, err := o.guest.GetQuote(ctx, reportData)
	if err != nil {
		return ev, err
	}
	ev.Collateral, err = o.verifier.CollateralFor(ctx, ev.Quote)
	return ev, err
}

// marks keeps the newest collateral in KV, as package coordinator does: one consistent
// read for each verification.
type marks struct{ store store.Store }

// Get implements collateral.Highest.
func (m *marks) Get(ctx context.Context, fmspc string) (policy.CollateralMark, error) {
	mark, _, err := store.Read[policy.CollateralMark](ctx, m.store, store.CollateralKey(fmspc))
	if errors.Is(err, store.ErrNotFound) {
		return policy.CollateralMark{}, nil
	}
	return mark, err
}

// Raise implements collateral.Highest.
func (m *marks) Raise(ctx context.Context, mark policy.CollateralMark) error {
	before, index, err := store.Read[policy.CollateralMark](ctx, m.store, store.CollateralKey(mark.FMSPC))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	op, err := store.Put(store.CollateralKey(mark.FMSPC), before.Raised(mark), index)
	if err != nil {
		return err
	}
	if err := m.store.Commit(ctx, op); !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil // another coordinator was faster; all are given the same
}
