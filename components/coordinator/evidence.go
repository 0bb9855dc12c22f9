package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cadre.dev/attest"
	"cadre.dev/core/policy"
	"cadre.dev/store"
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
	cfg.Collateral, cfg.Highest, cfg.Now = source, &marks{c.store}, c.deps.Now
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

// marks keeps the newest collateral in KV, one record per family of machines, so
// that every coordinator refuses what is older (ATT-05, ATT-29).
type marks struct{ store store.Store }

// raiseAttempts bounds how often another coordinator may come first.
const raiseAttempts = 5

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
	key := store.CollateralKey(mark.FMSPC)
	var err error
	for range raiseAttempts {
		var (
			before policy.CollateralMark
			index  uint64
			op     store.Op
		)
		before, index, err = store.Read[policy.CollateralMark](ctx, m.store, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		raised := before.Raised(mark)
		if index != 0 && raised.Equal(before) {
			return nil
		}
		if op, err = store.Put(key, raised, index); err != nil {
			return err
		}
		if err = m.store.Commit(ctx, op); err == nil || !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("record the newest collateral: %w", err)
}
