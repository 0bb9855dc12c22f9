package attest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cadre.dev/attest/collateral"
	"cadre.dev/core/policy"
)

// evidenceFile reads a file of evidence published by others. The file is outside of the project: in
// the folder shared/fixtures/evidence next to the checkout, or in CADRE_EVIDENCE.
func evidenceFile(t *testing.T, path ...string) []byte {
	t.Helper()
	dir := os.Getenv("CADRE_EVIDENCE")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "fixtures", "evidence")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the evidence that others published is not here; CADRE_EVIDENCE names its folder")
	}
	data, err := os.ReadFile(filepath.Join(append([]string{dir}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// published is a collateral bundle and a minute after its newest part was signed.
func published(t *testing.T, name string) (*collateral.Set, time.Time) {
	t.Helper()
	bundle, err := collateral.ParseBundle(evidenceFile(t, "bundles", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := collateral.Open(bundle, mustIntel(t))
	if err != nil {
		t.Fatal(err)
	}
	return set, set.Mark().IssuedAt.Add(time.Minute)
}

// TestRealEvidenceOfOthers: whole evidence with event logs, under Intel's root.
func TestRealEvidenceOfOthers(t *testing.T) {
	for _, c := range []struct {
		name, bundle string
		want         policy.Code
		status       string
	}{
		{"near-mpc-71e4107554", "b0c06f_2026-08-11_eval19", "", "UpToDate"},
		{"near-mpc-71e4107554", "b0c06f_2026-08-13_eval20", "", "OutOfDate"},
		{"near-mpc-71e4107554", "90c06f_2026-02-18_eval18", policy.CodeCollateralUnavailable, ""},
		{"dstack-tdx-lite-getquote", "", "", ""},
		{"dstack-examples-rtmr3", "", CodeUnsupportedVersion, ""},
	} {
		var ev struct {
			Quote    string `json:"quote"`
			EventLog string `json:"event_log"`
		}
		if err := json.Unmarshal(evidenceFile(t, "evidence", c.name+".json"), &ev); err != nil {
			t.Fatal(err)
		}
		quote, err := hex.DecodeString(ev.Quote)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
		var given []byte
		if c.bundle != "" {
			set, at := published(t, c.bundle)
			given, now = set.Encoded(), at
		}
		v, err := NewVerifier(VerifierConfig{Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parseQuote(quote)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := v.Verify(context.Background(), Evidence{Quote: quote, EventLog: ev.EventLog, Collateral: given}, [64]byte(parsed.GetTdQuoteBody().GetReportData()))
		wantCode(t, c.name+" with "+c.bundle, err, c.want)
		if claims.TCB.Status != c.status {
			t.Errorf("%s with %s: %q, want %q", c.name, c.bundle, claims.TCB.Status, c.status)
		}
		if c.status != "OutOfDate" {
			continue
		}
		replaced := time.Date(2025, 8, 13, 0, 0, 0, 0, time.UTC)
		if !claims.TCB.ReplacedAt.Equal(replaced) {
			t.Errorf("%s: replaced at %s, want %s", c.name, claims.TCB.ReplacedAt, replaced)
		}
		// On the day that ended all machines of the family: refused without a grace, admitted with
		// one.
		for days, want := range map[int]bool{0: false, 365: false, 425: true} {
			if d := policy.AppraiseTCB(policy.TCBPolicy{GraceDays: days}, claims.TCB, now); d.Allowed != want {
				t.Errorf("grace of %d days: %+v", days, d)
			}
		}
		end := replaced.Add(425 * 24 * time.Hour)
		if d := policy.AppraiseTCB(policy.TCBPolicy{GraceDays: 425}, claims.TCB, end); d.Allowed {
			t.Error("admitted after the grace")
		}
	}
}

// TestRealQuotesOfOthers: by signature, attributes and collateral, without an event log.
func TestRealQuotesOfOthers(t *testing.T) {
	for _, c := range []struct {
		name, bundle string
		want         policy.Code
		status       string
	}{
		{"v3_sgx", "", CodeUnsupportedVersion, ""},
		{"v4_azure_attr0", "", CodeTDAttributesForbidden, ""},
		{"v4_module_TDX_03", "", "", ""},
	} {
		raw := evidenceFile(t, "quotes", c.name+".bin")
		status, err := judgeQuote(t, raw, c.bundle)
		wantCode(t, c.name, err, c.want)
		if status != c.status {
			t.Errorf("%s: %q, want %q", c.name, status, c.status)
		}
	}
}

func judgeQuote(t *testing.T, raw []byte, bundle string) (string, error) {
	t.Helper()
	now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	var given []byte
	if bundle != "" {
		set, at := published(t, bundle)
		given, now = set.Encoded(), at
	}
	v, err := NewVerifier(VerifierConfig{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	quote, err := parseQuote(raw)
	if err != nil {
		return "", err
	}
	chain, err := v.verifySignatures(quote)
	if err != nil {
		return "", err
	}
	if err := checkAttributes(quote.GetTdQuoteBody()); err != nil {
		return "", err
	}
	if err := quote.five.check(); err != nil {
		return "", err
	}
	if err := checkQE(quote); err != nil {
		return "", err
	}
	tcb, err := v.evaluateTCB(context.Background(), quote, chain, given)
	return tcb.Status, err
}

// TestIntelsEarlySetDoesNotBarTheStandardSet beyond its own dates: both were valid at the same time.
func TestIntelsEarlySetDoesNotBarTheStandardSet(t *testing.T) {
	early, _ := published(t, "00806f05_2024-05-16_eval17_early")
	standard, at := published(t, "00806f05_2024-06-14_eval16_standard")
	high := policy.CollateralWatermark{}.Raised(early.Mark())
	ended := early.Mark().TCBUntil
	for name, c := range map[string]struct {
		now  time.Time
		want policy.Code
	}{
		"while the early one is in date": {ended, policy.CodeCollateralRollback},
		"after it ended":                 {ended.Add(24 * time.Hour), ""},
	} {
		wantCode(t, name, asCoded(collateral.CheckMark(standard.Mark(), high, c.now)), c.want)
	}
	if err := standard.Fresh(at, 0); err != nil {
		t.Error(err)
	}
}

func asCoded(err error) error {
	if err == nil {
		return nil
	}
	return asError(err)
}
