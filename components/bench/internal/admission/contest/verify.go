package contest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/go-tdx-guest/abi"
	"github.com/google/go-tdx-guest/verify"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
	"cadre.dev/figures"
)

// verifications are made by each side in a round, in blocks whose order is drawn.
const verifications, block = 240, 8

// verification compares the whole verifier with cached collateral against the library's check of
// the same quote's signatures alone.
func (l *lab) verification(ctx context.Context, r *results) error {
	ev, data, err := l.agents[0].Evidence(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	bundle, err := l.cloud.Collateral(now, attestsim.Posture{})
	if err != nil {
		return err
	}
	clock := func() time.Time { return now }
	ours, err := attest.NewVerifier(attest.VerifierConfig{RootsPEM: l.cloud.RootPEM(), Collateral: cached{bundle}, Now: clock})
	if err != nil {
		return err
	}
	first, _ := pem.Decode(l.cloud.RootPEM())
	if first == nil {
		return errors.New("no root")
	}
	root, err := x509.ParseCertificate(first.Bytes)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	sides := []struct {
		do   func() error
		took []float64
	}{
		{do: func() error { _, err := ours.Verify(ctx, ev, data); return err }},
		{do: func() error {
			parsed, err := abi.QuoteToProto(ev.Quote)
			if err != nil {
				return err
			}
			return verify.TdxQuote(parsed, &verify.Options{TrustedRoots: pool, Now: now})
		}},
	}
	for _, side := range sides { // caches are filled
		if err := side.do(); err != nil {
			return err
		}
	}
	for range verifications / block {
		for _, i := range rand.Perm(len(sides)) {
			for range block {
				began := time.Now()
				if err := sides[i].do(); err != nil {
					return err
				}
				sides[i].took = append(sides[i].took, float64(time.Since(began).Nanoseconds())/1e3)
			}
		}
	}
	one, other := figures.Median(sides[0].took), figures.Median(sides[1].took)
	r.verifyOurs, r.verifyTheirs = append(r.verifyOurs, one), append(r.verifyTheirs, other)
	l.say("  %.0f µs against %.0f µs", one, other)
	return nil
}

// cached is collateral that was fetched before.
type cached struct{ bundle collateral.Bundle }

func (c cached) Bundle(context.Context, string) (collateral.Bundle, error) { return c.bundle, nil }
