package attest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"reflect"
	"testing"
	"time"

	"cadre.dev/core/policy"

	"github.com/google/go-tdx-guest/pcs"
)

// realEvidence is a quote of real hardware; testdata/README.md names its source.
func realEvidence(t testing.TB) Evidence {
	t.Helper()
	raw, err := os.ReadFile("testdata/dstack-quote-report.json")
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Quote    string `json:"quote"`
		EventLog string `json:"event_log"`
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		t.Fatal(err)
	}
	quote, err := hex.DecodeString(report.Quote)
	if err != nil {
		t.Fatal(err)
	}
	return Evidence{Quote: quote, EventLog: report.EventLog}
}

func fixedNow(t testing.TB, day string) func() time.Time {
	t.Helper()
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		t.Fatal(err)
	}
	return func() time.Time { return at }
}

func realReportData() (data [64]byte) {
	data[0], data[1] = 0x12, 0x34
	return data
}

func TestRealHardwareEvidence(t *testing.T) {
	v, err := NewVerifier(VerifierConfig{Now: fixedNow(t, "2026-01-01")})
	if err != nil {
		t.Fatal(err)
	}
	got, err := v.Verify(context.Background(), realEvidence(t), realReportData())
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Claims{
		AppID:             "3763bc34552cf3a27ff71ad5f7a90471562a1a2d",
		InstanceID:        "c3714eb66990eace777b4e664c16e09375dec4c9",
		ComposeHash:       "3763bc34552cf3a27ff71ad5f7a90471562a1a2df552dfc1998cba2d60da27e7",
		AppComposeProblem: "app-compose.json is not part of the evidence",
		KeyProviderName:   "local-sgx",
		KeyProviderID:     "1b7a49378403249b6986a907844cab0921eca32dd47e657f3c10311ccaeccf8b",
		MRTD:              "b24d3b24e9e3c16012376b52362ca09856c4adecb709d5fac33addf1c47e193da075b125b6c364115771390a5461e217",
		RTMR0:             "2e3843265f8ecdd4e2282694747f6f2f111605c33f2a8882f5734ee6f3a6ce63d8f34aeef06093dcda76fa5f9d33d8d6",
		RTMR1:             "a1b79d76021970f57c45c4a7c395f780bab37011a4df27fe44e8559bd1abb4d6e52f12f866d1d08405448eb797a5970f",
		RTMR2:             "1e31b59d605df7ee8160cf7966be9bafa6d0e1905de7e09695a24cd9748e71a603a51fae1297619fa0c30517addbcd07",
		Machine:           "platform-instance:af3b9e752ee6e3f88eb745536ae57b0d",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("claims:\n got %+v\nwant %+v", got, want)
	}
}

func realVerifier(t testing.TB) *Verifier {
	t.Helper()
	v, err := NewVerifier(VerifierConfig{Now: fixedNow(t, "2026-01-01")})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRealQuoteIsOnlyValidInTheDatesOfItsCertificates(t *testing.T) {
	for _, c := range []struct {
		day  string
		want policy.Code
	}{
		{"2020-01-01", CodeQuoteInvalid},
		{"2025-09-15", CodeQuoteInvalid},
		{"2025-09-17", ""},
		{"2032-09-15", ""},
		{"2032-09-17", CodeQuoteInvalid},
		{"2035-01-01", CodeQuoteInvalid},
	} {
		v, err := NewVerifier(VerifierConfig{Now: fixedNow(t, c.day)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Verify(context.Background(), realEvidence(t), realReportData())
		wantCode(t, c.day, err, c.want)
	}
}

func TestRealQuoteUnderAnotherRootOnlyIsRefused(t *testing.T) {
	other, err := parseCertificates(openCloud(t).RootPEM())
	if err != nil {
		t.Fatal(err)
	}
	v := &Verifier{roots: roots{intel: other[0]}, now: fixedNow(t, "2026-01-01")}
	_, err = v.Verify(context.Background(), realEvidence(t), realReportData())
	wantCode(t, "root pool without Intel", err, CodeQuoteInvalid)
}

func TestRealQuoteIsNotSimulatedWhereOtherRootsAreTrustedToo(t *testing.T) {
	v, err := NewVerifier(VerifierConfig{RootsPEM: openCloud(t).RootPEM(), Now: fixedNow(t, "2026-01-01")})
	if err != nil {
		t.Fatal(err)
	}
	claims, err := v.Verify(context.Background(), realEvidence(t), realReportData())
	if err != nil || claims.Simulated {
		t.Errorf("simulated %t, error %v; want a real quote", claims.Simulated, err)
	}
}

func TestRealQuoteFields(t *testing.T) {
	ev := realEvidence(t)
	if len(ev.Quote) != 5006 {
		t.Errorf("quote has %d bytes, want 5006", len(ev.Quote))
	}
	q, err := parseQuote(ev.Quote)
	if err != nil {
		t.Fatal(err)
	}
	body := q.GetTdQuoteBody()
	if got := hex.EncodeToString(body.GetRtmrs()[3]); got != "0f787c3877f3e95095d5a4d13dd0fe0233803b30120d8469866719dc28f519ce021fe1e53459121e7a5a4443147185a8" {
		t.Errorf("RTMR3 %s", got)
	}
	if !isZero(body.GetMrConfigId()) {
		t.Errorf("MRCONFIGID %x, want zero", body.GetMrConfigId())
	}
	if got := hex.EncodeToString(body.GetTdAttributes()); got != "0000001000000000" {
		t.Errorf("TD attributes %s", got)
	}
	if got := hex.EncodeToString(body.GetXfam()); got != "e702060000000000" {
		t.Errorf("XFAM %s", got)
	}
	chain := q.GetSignedData().GetCertificationData().GetQeReportCertificationData().GetPckCertificateChainData().GetPckCertChain()
	block, _ := pem.Decode(chain)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	ext, err := pcs.PckCertificateExtensions(leaf)
	if err != nil {
		t.Fatal(err)
	}
	if ext.FMSPC != "90c06f000000" {
		t.Errorf("FMSPC %s", ext.FMSPC)
	}
}

func TestRealEventLogReplaysToAllFourRegisters(t *testing.T) {
	ev := realEvidence(t)
	events, err := parseEventLog(ev.EventLog)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 28 {
		t.Errorf("%d events, want 28", len(events))
	}
	q, err := parseQuote(ev.Quote)
	if err != nil {
		t.Fatal(err)
	}
	regs, _ := replay(events)
	for i, want := range q.GetTdQuoteBody().GetRtmrs() {
		if !bytes.Equal(regs[i][:], want) {
			t.Errorf("RTMR%d: replay %x, quote %x", i, regs[i], want)
		}
	}
}

// flips calls check with every byte of the quote changed in turn, in one bit.
func flips(t *testing.T, quote []byte, check func(i int, flipped []byte)) {
	t.Helper()
	flipped := bytes.Clone(quote)
	for i := range quote {
		flipped[i] ^= 1 << (i % 8)
		check(i, flipped)
		flipped[i] = quote[i]
	}
}

func TestATT01_EveryFlippedByteOfARealQuoteIsRefused(t *testing.T) {
	v, ev := realVerifier(t), realEvidence(t)
	flips(t, ev.Quote, func(i int, flipped []byte) {
		_, err := v.Verify(context.Background(), Evidence{Quote: flipped, EventLog: ev.EventLog}, realReportData())
		if codeOf(err) == "" {
			t.Errorf("byte %d changed: accepted", i)
		}
	})
}
