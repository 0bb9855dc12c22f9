package attest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/core/appcompose/appcomposetest"
	"cadre.dev/core/policy"
)

// Evidence of a healthy boot, each part changeable before it is made. Unlike a
// simulated Guest it can be wrong in any way.
type fake struct {
	cloud   *attestsim.Cloud
	events  []event
	compose []byte
	report  attestsim.Report
	qe      attestsim.QuotingEnclave
	// stripped leaves out the digests of runtime events, as agents from 0.5.6 do.
	stripped bool
}

var (
	fakeAppID      = bytes.Repeat([]byte{1}, 20)
	fakeInstanceID = bytes.Repeat([]byte{3}, 20)
	fakeProvider   = `{"name":"kms","id":"3059"}`
	fakeCompose    = appcomposetest.Good("x", "services: {}")
)

func simNow() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) }

func openCloud(t testing.TB) *attestsim.Cloud {
	t.Helper()
	c, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newFake(t testing.TB) *fake {
	t.Helper()
	hash := sha256.Sum256(fakeCompose)
	return &fake{
		cloud:   openCloud(t),
		compose: fakeCompose,
		events:  bootEvents(hash[:]),
		report:  attestsim.Report{TDAttributes: attestsim.HealthyTDAttributes, XFAM: attestsim.HealthyXFAM, TEETCBSVN: attestsim.HealthyTEETCBSVN()},
		qe:      attestsim.RealQE(),
	}
}

func bootEvents(composeHash []byte) []event {
	return []event{
		runtime(eventPreparing, nil),
		runtime(eventAppID, fakeAppID),
		runtime(eventComposeHash, composeHash),
		runtime(eventInstanceID, fakeInstanceID),
		runtime(eventBootMRDone, nil),
		runtime(eventMRKMS, bytes.Repeat([]byte{4}, 32)),
		runtime(eventOSImageHash, bytes.Repeat([]byte{5}, 32)),
		runtime(eventKeyProvider, []byte(fakeProvider)),
		runtime(eventStorageFS, []byte("zfs")),
		runtime(eventReady, nil),
	}
}

func runtime(name string, payload []byte) event {
	return runtimeOf(1, name, payload)
}

func runtimeOf(version int, name string, payload []byte) event {
	preimage, err := runtimePreimage(version, name, payload)
	if err != nil {
		panic(err)
	}
	return event{imr: 3, kind: runtimeEventType, name: name, payload: payload, digest: sha512.Sum384(preimage), version: version}
}

// log is the events' JSON text.
func (f *fake) log(t testing.TB) string {
	t.Helper()
	type wire struct {
		IMR     int    `json:"imr"`
		Type    uint32 `json:"event_type"`
		Digest  string `json:"digest"`
		Event   string `json:"event"`
		Payload string `json:"event_payload"`
		Version int    `json:"version,omitempty"`
	}
	list := []wire{}
	for _, ev := range f.events {
		w := wire{ev.imr, ev.kind, hex.EncodeToString(ev.digest[:]), ev.name, hex.EncodeToString(ev.payload), 0}
		if ev.version > 1 {
			w.Version = ev.version
		}
		if f.stripped && ev.imr == 3 {
			w.Digest = ""
		}
		list = append(list, w)
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// evidence quotes the replay of the events.
func (f *fake) evidence(t testing.TB) Evidence {
	t.Helper()
	regs, count := replay(f.events)
	report := f.report
	for i := range regs {
		if count[i] > 0 {
			report.RTMR[i] = regs[i]
		}
	}
	quote, err := f.cloud.Quote("", report, f.qe)
	if err != nil {
		t.Fatal(err)
	}
	return Evidence{Quote: quote, EventLog: f.log(t), AppCompose: f.compose}
}

func (f *fake) verifier(t testing.TB) *Verifier {
	t.Helper()
	v, err := NewVerifier(VerifierConfig{RootsPEM: f.cloud.RootPEM(), Now: simNow})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (f *fake) verify(t testing.TB) (policy.Claims, error) {
	t.Helper()
	return f.verifier(t).Verify(context.Background(), f.evidence(t), f.report.ReportData)
}

// codeOf is the code of a refusal, "" for acceptance.
func codeOf(err error) policy.Code {
	var refused *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return refused.Code
	}
	return policy.Code("not an *Error: " + err.Error())
}

func wantCode(t testing.TB, what string, err error, want policy.Code) {
	t.Helper()
	if got := codeOf(err); got != want {
		t.Errorf("%s: got %q (%v), want %q", what, got, err, want)
	}
}

func TestFakeEvidenceIsAccepted(t *testing.T) {
	for _, stripped := range []bool{false, true} {
		f := newFake(t)
		f.stripped = stripped
		claims, err := f.verify(t)
		if err != nil {
			t.Fatalf("stripped %t: %v", stripped, err)
		}
		if claims.AppComposeProblem != "" || claims.ComposeText != "services: {}" || !claims.Simulated {
			t.Errorf("stripped %t: claims %+v", stripped, claims)
		}
	}
}
