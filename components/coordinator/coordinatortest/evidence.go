package coordinatortest

import (
	"context"

	"cadre.dev/attest"
	"cadre.dev/coordinator/internal/highwater"
	"cadre.dev/store"
)

func newVerifier(cfg Config, records store.Store) (*attest.Verifier, error) {
	source, err := attest.Trust{Collateral: attest.TrustCollateral{PCCSURL: cfg.PCCS}}.CollateralSource(nil)
	if err != nil {
		return nil, err
	}
	return attest.NewVerifier(attest.VerifierConfig{RootsPEM: cfg.RootPEM, Collateral: source, Highest: highwater.New(records)})
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
