package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"cadre.dev/attest"
	"cadre.dev/coordinator/internal/marks"
)

// assembleVerifier makes what judges evidence, by the trust file alone, and what
// makes this coordinator's own.
func (c *Coordinator) assembleVerifier() error {
	c.verifier, c.quoter = c.deps.Verifier, c.deps.Guest
	if c.verifier != nil {
		return nil
	}
	source, err := c.cfg.Trust.CollateralSource()
	if err != nil {
		return err
	}
	cfg := c.cfg.Trust.VerifierConfig()
	cfg.Collateral, cfg.Highest, cfg.Now = source, marks.New(c.store), c.deps.Now
	own, err := attest.NewVerifier(cfg)
	if err != nil {
		return fmt.Errorf("make verifier: %w", err)
	}
	// What goes with our own evidence is judged by the other side; it must not wait for
	// records, which are not readable before Consul's first election.
	cfg.Highest = nil
	finder, err := attest.NewVerifier(cfg)
	if err != nil {
		return fmt.Errorf("make verifier: %w", err)
	}
	c.verifier, c.quoter = own, &ownEvidence{guest: c.deps.Guest, verifier: finder, log: c.log}
	if url := c.cfg.Trust.DstackVerifier.URL; url != "" {
		second, err := attest.NewDstackVerifier(url, c.cfg.Trust.Images)
		if err != nil {
			return fmt.Errorf("make second verifier: %w", err)
		}
		c.verifier = attest.Both(own, second)
	}
	return nil
}

// ownCollateralWait bounds how long this coordinator's own evidence waits for the
// collateral that goes with it.
const ownCollateralWait = 5 * time.Second

// ownEvidence adds collateral to this coordinator's evidence, so that agents need
// no way to Intel's service.
type ownEvidence struct {
	guest    Guest
	verifier *attest.Verifier
	log      *slog.Logger
}

// GetQuote implements admission.Quoter. Evidence without collateral is still what it
// is: the other side says that it is missing.
func (o *ownEvidence) GetQuote(ctx context.Context, reportData []byte) (attest.Evidence, error) {
	ev, err := o.guest.GetQuote(ctx, reportData)
	if err != nil {
		return ev, err
	}
	wait, cancel := context.WithTimeout(ctx, ownCollateralWait)
	defer cancel()
	if ev.Collateral, err = o.verifier.CollateralFor(wait, ev.Quote); err != nil {
		o.log.Warn("own evidence goes without collateral", "error", err)
	}
	return ev, nil
}
