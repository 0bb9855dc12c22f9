package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/collateral"
	"cadre.dev/coordinator/internal/collateralcache"
)

// keptCollateral is the folder of package collateralcache inside the state directory.
const keptCollateral = "collateral"

// assembleQuoter creates the source of this coordinator's own evidence, and the verifier of other
// coordinators' evidence, from the trust file alone. Neither needs the records.
func (c *Coordinator) assembleQuoter() error {
	c.finder, c.quoter = c.deps.Verifier, c.deps.Guest
	if c.finder != nil {
		return nil
	}
	if err := c.readTrust(); err != nil {
		return err
	}
	// The other side judges our own evidence. Producing it must not wait for the records, which are
	// unreadable before Consul's first election. Without records this verifier cannot decide either
	// which collateral is worth keeping.
	finder, err := attest.NewVerifier(c.judging)
	if err != nil {
		return fmt.Errorf("make verifier: %w", err)
	}
	c.finder, c.quoter = finder, &ownEvidence{guest: c.deps.Guest, verifier: finder, log: c.log}
	return nil
}

// readTrust prepares the verifiers' configuration from the trust file, with the cached collateral.
// All verifiers share one source: newer collateral of one verifier also goes with this
// coordinator's own evidence.
func (c *Coordinator) readTrust() (err error) {
	cfg := c.cfg.Trust.VerifierConfig()
	c.keep = collateralcache.New(filepath.Join(c.cfg.StateDir, keptCollateral), func(b collateral.Bundle) error {
		_, _, err := attest.OpenBundle(b, cfg.RootsPEM)
		return err
	}, c.deps.Now, c.log)
	cfg.Now = c.deps.Now
	cfg.Collateral, err = c.cfg.Trust.CollateralSource(c.keep)
	c.judging = cfg
	return err
}

// assembleVerifier creates the verifier from the trust file alone. highest is the highest
// evaluation that all coordinators have seen.
func (c *Coordinator) assembleVerifier(highest collateral.Highest) error {
	if c.verifier = c.deps.Verifier; c.verifier != nil {
		return nil
	}
	cfg := c.judging
	cfg.Highest = highest
	if c.cfg.Trust.Collateral.PCCSURL != "" {
		cfg.Accepted = c.keep.Put
	}
	own, err := attest.NewVerifier(cfg)
	if err != nil {
		return fmt.Errorf("make verifier: %w", err)
	}
	c.verifier = own
	if url := c.cfg.Trust.DstackVerifier.URL; url != "" {
		second, err := attest.NewDstackVerifier(url, c.cfg.Trust.Images)
		if err != nil {
			return fmt.Errorf("make second verifier: %w", err)
		}
		c.second = second
	}
	return nil
}

// ownCollateralWait bounds how long this coordinator's own evidence waits for its collateral.
const ownCollateralWait = 5 * time.Second

// ownEvidence adds collateral to this coordinator's evidence, so that agents need no connection to
// Intel's service.
type ownEvidence struct {
	guest    Guest
	verifier *attest.Verifier
	log      *slog.Logger
}

// GetQuote implements admission.Quoter. Evidence without collateral is still returned: the other
// side reports that it is missing.
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
