package collateral_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
	"cadre.dev/attest/internal/refusal"
	"cadre.dev/core/policy"
)

func wantUnavailable(t testing.TB, what string, err error) {
	t.Helper()
	refused, ok := errors.AsType[*refusal.Error](err)
	if !ok || refused.Code != policy.CodeCollateralUnavailable || !refused.Retryable() {
		t.Errorf("%s: got %v, want COLLATERAL_UNAVAILABLE, to be retried", what, err)
	}
}

func rootOf(t testing.TB, cloud *attestsim.Cloud) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(cloud.RootPEM())
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func simBundle(t testing.TB, cloud *attestsim.Cloud) collateral.Bundle {
	t.Helper()
	b, err := cloud.Collateral(newClock().now(), attestsim.Posture{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBundlesHaveOneForm(t *testing.T) {
	cloud := openCloud(t)
	b := simBundle(t, cloud)
	first, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := collateral.ParseBundle(append([]byte(" \n"), first...))
	if err != nil {
		t.Fatal(err)
	}
	second, err := again.Encode()
	if err != nil || !bytes.Equal(first, second) || b.Digest() != again.Digest() {
		t.Errorf("the second encoding differs: %v", err)
	}
	set, err := collateral.Open(again, rootOf(t, cloud))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(set.Encoded(), first) || set.FMSPC() != attestsim.FMSPC() {
		t.Error("the opened set has other bytes")
	}
}

func TestParseBundleRefuses(t *testing.T) {
	good, err := simBundle(t, openCloud(t)).Encode()
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, text string) []byte { return bytes.Replace(good, []byte(old), []byte(text), 1) }
	for name, data := range map[string][]byte{
		"nothing":       nil,
		"too long":      append(bytes.Clone(good), bytes.Repeat([]byte(" "), collateral.MaxBundleSize)...),
		"no version":    replace(`"version":1,`, ``),
		"version 2":     replace(`"version":1`, `"version":2`),
		"unknown name":  replace(`"version":1`, `"version":1,"more":1`),
		"folded name":   replace(`"tcb_info":`, `"TCB_info":`),
		"repeated name": replace(`"version":1`, `"version":1,"version":1`),
		"a part less":   replace(`"root_crl":`, `"pck_crl":`),
		"bad base64":    replace(`"pck_crl":"`, `"pck_crl":"!`),
		"two documents": append(bytes.Clone(good), good...),
		"long part":     replace(`"tcb_info":"`, `"tcb_info":"`+strings.Repeat(" ", 60<<10)),
	} {
		_, err := collateral.ParseBundle(data)
		wantUnavailable(t, name, err)
	}
}

func TestRaisedMarksOnlyGrow(t *testing.T) {
	ctx, m, now := context.Background(), &collateral.Memory{}, time.Unix(1e9, 0)
	for _, mark := range []policy.CollateralWatermark{
		{FMSPC: "a", TCBEvaluation: 5, QEEvaluation: 1, IssuedAt: now}, {FMSPC: "a", TCBEvaluation: 3, QEEvaluation: 2, IssuedAt: now.Add(-time.Hour)}, {FMSPC: "b"},
	} {
		if err := m.Raise(ctx, mark); err != nil {
			t.Fatal(err)
		}
	}
	got, err := m.Get(ctx, "a")
	if want := (policy.CollateralWatermark{FMSPC: "a", TCBEvaluation: 5, QEEvaluation: 2, IssuedAt: now}); err != nil || !got.Equal(want) {
		t.Errorf("mark %+v, want %+v", got, want)
	}
}

// Every accepted bundle has valid signatures, for any input bytes.
func FuzzINP09_Bundle(f *testing.F) {
	cloud := openCloud(f)
	good, err := simBundle(f, cloud).Encode()
	if err != nil {
		f.Fatal(err)
	}
	root := rootOf(f, cloud)
	f.Add(good)
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := collateral.ParseBundle(data)
		if err != nil {
			return
		}
		_, _, _ = b.Claims()
		set, err := collateral.Open(b, root)
		if err != nil {
			return
		}
		if tcb, err := set.Evaluate(collateral.Machine{FMSPC: set.FMSPC(), PCEID: "0000"}); err == nil && tcb.Status == "" {
			t.Error("an empty status")
		}
	})
}
