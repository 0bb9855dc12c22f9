package attest

import (
	"context"
	"crypto/x509"
	"reflect"
	"testing"

	"cadre.dev/attest/attestsim"
	"cadre.dev/core/policy"
)

// The parsers of foreign bytes: no parser may panic, and every accepted value must hold the
// promises of its type.

func FuzzINP09_ParseQuote(f *testing.F) {
	f.Add(realEvidence(f).Quote)
	f.Add(newFake(f).evidence(f).Quote)
	five := newFake(f)
	five.report.BodyType = attestsim.TD15
	f.Add(five.evidence(f).Quote)
	f.Fuzz(func(t *testing.T, raw []byte) {
		q, err := parseQuote(raw)
		if err != nil {
			return
		}
		if checkQE(q) == nil && checkAttributes(q.GetTdQuoteBody()) == nil {
			_, _ = (&Verifier{now: simNow, roots: roots{intel: mustIntel(t)}}).verifySignatures(q)
		}
	})
}

func mustIntel(t testing.TB) *x509.Certificate {
	t.Helper()
	r, err := loadRoots(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.intel
}

func FuzzINP09_ParseEventLog(f *testing.F) {
	f.Add(realEvidence(f).EventLog)
	f.Add(newFake(f).log(f))
	f.Add(`[{"imr":3,"event_type":134217729,"digest":"","event":"app-id","event_payload":"00","version":1}]`)
	f.Fuzz(func(t *testing.T, text string) {
		events, err := parseEventLog(text)
		if err != nil {
			return
		}
		replay(events)
		if boot, err := readBoot(events); err == nil {
			if len(boot.appID) != 20 || len(boot.composeHash) != 32 || boot.keyProvider.Name == "" {
				t.Errorf("accepted boot %+v", boot)
			}
		}
	})
}

func FuzzINP09_ParseTrust(f *testing.F) {
	f.Add(string(trustFile(f, nil, nil)))
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, raw string) {
		trust, err := ParseTrust([]byte(raw))
		if err != nil {
			return
		}
		if trust.KeyProvider.ID == "" || len(trust.Images) == 0 {
			t.Errorf("accepted a trust file without pins: %+v", trust)
		}
		if _, err := NewVerifier(trust.VerifierConfig()); err != nil {
			t.Errorf("accepted roots that cannot be used: %v", err)
		}
	})
}

// FuzzINP09_Verify: for any change of genuine evidence, the accepted claims are exactly the
// measured ones. An empty quote stands for that of a simulated CVM, and an empty collateral for its
// collateral. Both are signed by keys that each process makes for itself, and the fuzzer reaches
// the deep code by the unsigned texts next to them. The signatures of that quote are verified once,
// since they would take most of each execution.
func FuzzINP09_Verify(f *testing.F) {
	j := newJudge(f, nil)
	simulated, hardware := j.evidence(f), realEvidence(f)
	var err error
	if simulated.Collateral, err = j.v.CollateralFor(context.Background(), simulated.Quote); err != nil {
		f.Fatal(err)
	}
	intel, err := intelBundle(f).Encode()
	if err != nil {
		f.Fatal(err)
	}
	v := j.verifier(f)
	measured := func(ev Evidence, data [64]byte) policy.Claims {
		claims, err := v.Verify(context.Background(), ev, data)
		if err != nil {
			f.Fatal(err)
		}
		return claims
	}
	wantSimulated, wantHardware := measured(simulated, j.report.ReportData), measured(hardware, realReportData())
	parsed, err := parseQuote(simulated.Quote)
	if err != nil {
		f.Fatal(err)
	}
	chain, err := v.verifySignatures(parsed)
	if err != nil {
		f.Fatal(err)
	}
	judge := func(ev Evidence) (got, want policy.Claims, err error) {
		if len(ev.Quote) > 0 {
			got, err = v.Verify(context.Background(), ev, realReportData())
			return got, wantHardware, err
		}
		if len(ev.Collateral) == 0 {
			ev.Collateral = simulated.Collateral
		}
		got, err = v.claims(context.Background(), parsed, chain, ev, j.report.ReportData)
		return got, wantSimulated, err
	}
	stripped := *j.fake
	stripped.stripped = true
	f.Add([]byte{}, simulated.EventLog, simulated.AppCompose, []byte{})
	f.Add([]byte{}, stripped.log(f), []byte{}, []byte{})
	f.Add([]byte{}, simulated.EventLog, simulated.AppCompose, intel)
	f.Add(hardware.Quote, hardware.EventLog, []byte{}, []byte{})
	f.Add(hardware.Quote, hardware.EventLog, []byte(`{}`), []byte{})
	f.Add(hardware.Quote, hardware.EventLog, []byte{}, intel)
	f.Fuzz(func(t *testing.T, quote []byte, log string, compose, given []byte) {
		got, want, err := judge(Evidence{Quote: quote, EventLog: log, AppCompose: compose, Collateral: given})
		if err != nil {
			if codeOf(err) == "" {
				t.Errorf("refused without a code: %v", err)
			}
			return
		}
		if len(compose) == 0 {
			want.ComposeText, want.AppComposeProblem = "", wantHardware.AppComposeProblem
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("accepted %+v, measured was %+v", got, want)
		}
	})
}
