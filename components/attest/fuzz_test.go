package attest

import (
	"context"
	"crypto/x509"
	"testing"
)

// The parsers of bytes that we did not make: none may panic, and what is
// accepted must hold what the type promises.

func FuzzINP09_ParseQuote(f *testing.F) {
	f.Add(realEvidence(f).Quote)
	f.Add(newFake(f).evidence(f).Quote)
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

func FuzzINP09_ReadAppCompose(f *testing.F) {
	f.Add(string(fakeCompose))
	f.Add(`{"runner":"bash","pre_launch_script":"x"}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if text, problem := readAppCompose([]byte(raw), nil); problem == "" && text == "" {
			t.Error("accepted without a compose text")
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

func FuzzINP09_Verify(f *testing.F) {
	ev := newFake(f).evidence(f)
	f.Add(ev.Quote, ev.EventLog, ev.AppCompose)
	v, err := NewVerifier(VerifierConfig{Now: simNow})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, quote []byte, log string, compose []byte) {
		if _, err := v.Verify(context.Background(), Evidence{Quote: quote, EventLog: log, AppCompose: compose}, [64]byte{}); err == nil {
			t.Error("accepted evidence that nobody made")
		}
	})
}
