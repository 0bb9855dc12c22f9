package attest

import (
	"context"
	"crypto/x509"
	"testing"

	"github.com/google/go-tdx-guest/abi"
	"github.com/google/go-tdx-guest/verify"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
)

// Both in comparison: the library's time for the signatures of a quote alone, and the whole
// verification with event log, app-compose and cached collateral. The second is to stay below 1.5
// times the first.

func BenchmarkLibraryWithoutCollateral(b *testing.B) {
	f := newFake(b)
	quote := f.evidence(b).Quote
	roots, err := parseCertificates(f.cloud.RootPEM())
	if err != nil {
		b.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(roots[0])
	for b.Loop() {
		parsed, err := abi.QuoteToProto(quote)
		if err != nil {
			b.Fatal(err)
		}
		if err := verify.TdxQuote(parsed, &verify.Options{TrustedRoots: pool, Now: simNow()}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyWithCachedCollateral(b *testing.B) {
	j := newJudge(b, nil)
	ev := j.evidence(b)
	bundle, err := j.cloud.Collateral(j.now, attestsim.Posture{})
	if err != nil {
		b.Fatal(err)
	}
	j.source.f = func(string) (collateral.Bundle, error) { return bundle, nil }
	for b.Loop() {
		if _, err := j.v.Verify(context.Background(), ev, j.report.ReportData); err != nil {
			b.Fatal(err)
		}
	}
}

// An agent verifies a coordinator with the collateral that it was given.
func BenchmarkVerifyWithGivenCollateral(b *testing.B) {
	j := newJudge(b, nil)
	ev := j.evidence(b)
	var err error
	if ev.Collateral, err = j.v.CollateralFor(context.Background(), ev.Quote); err != nil {
		b.Fatal(err)
	}
	v := j.verifier(b)
	for b.Loop() {
		if _, err := v.Verify(context.Background(), ev, j.report.ReportData); err != nil {
			b.Fatal(err)
		}
	}
}
