package attest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/appcompose/appcomposetest"
)

// measuring is evidence of a CVM that was measured with compose.
func measuring(t *testing.T, compose []byte) *fake {
	f := newFake(t)
	hash := sha256.Sum256(compose)
	f.compose, f.events = compose, bootEvents(hash[:])
	return f
}

func TestThreat_ATT_16_GenuineEvidenceOfABadDocumentSaysSo(t *testing.T) {
	cases, err := appcomposetest.Bad(appcomposetest.Good("demo-web", "services: {}"))
	if err != nil {
		t.Fatal(err)
	}
	// All cases share one cloud, because making its keys takes time.
	f := newFake(t)
	for _, c := range cases {
		hash := sha256.Sum256(c.Raw)
		f.compose, f.events = c.Raw, bootEvents(hash[:])
		claims, err := f.verify(t)
		if err != nil || !strings.Contains("app-compose.json: "+claims.AppComposeProblem, c.Says) || claims.AppComposeProblem == "" {
			t.Errorf("%s: problem %q, error %v, want it to say %q", c.Name, claims.AppComposeProblem, err, c.Says)
		}
	}
}

func TestThreat_ATT_17_EvidenceSaysWhichNamesTheEnvironmentMaySet(t *testing.T) {
	claims, err := measuring(t, appcomposetest.Good("demo-web", "services: {}", "B", "A")).verify(t)
	if err != nil || claims.AppComposeProblem != "" || claims.ComposeText != "services: {}" || !slices.Equal(claims.AllowedEnvs, []string{"A", "B"}) {
		t.Errorf("claims %+v, error %v", claims, err)
	}
}

func TestThreat_ATT_16_AScriptIsTakenByItsDigest(t *testing.T) {
	sum := sha256.Sum256([]byte("echo ready"))
	var doc map[string]any
	if err := json.Unmarshal(appcomposetest.Good("demo-web", "services: {}"), &doc); err != nil {
		t.Fatal(err)
	}
	doc["pre_launch_script"], doc["key_provider_id"] = "echo ready", "3059"
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	f := measuring(t, raw)
	for _, scripts := range [][]string{nil, {hex.EncodeToString(sum[:])}} {
		v, err := NewVerifier(VerifierConfig{RootsPEM: f.cloud.RootPEM(), Now: simNow, Documents: appcompose.Rules{Scripts: scripts}})
		if err != nil {
			t.Fatal(err)
		}
		claims, err := v.Verify(context.Background(), f.evidence(t), f.report.ReportData)
		if err != nil || (claims.AppComposeProblem == "") != (scripts != nil) {
			t.Errorf("scripts %v: problem %q, error %v", scripts, claims.AppComposeProblem, err)
		}
	}
}

// TestATT29_AVerifierTakesNoSecureTimeOnlyWhereItsTrustFileSaysSo.
func TestATT29_AVerifierTakesNoSecureTimeOnlyWhereItsTrustFileSaysSo(t *testing.T) {
	raw, err := appcompose.Rules{SecureTimeOff: true}.Render("demo-web", "services: {}", nil)
	if err != nil {
		t.Fatal(err)
	}
	f := measuring(t, raw)
	for _, off := range []bool{false, true} {
		trust, err := ParseTrust(trustFile(t, f.cloud.RootPEM(), func(fields map[string]any) {
			if off {
				fields["secure_time_off"] = true
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		cfg := trust.VerifierConfig()
		cfg.Now = simNow
		v, err := NewVerifier(cfg)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := v.Verify(context.Background(), f.evidence(t), f.report.ReportData)
		if err != nil || (claims.AppComposeProblem == "") != off {
			t.Errorf("off %t: problem %q, error %v", off, claims.AppComposeProblem, err)
		}
	}
}

func TestATT15_AppComposeMustBeTheMeasuredOne(t *testing.T) {
	f := newFake(t)
	f.compose = append([]byte(nil), fakeCompose...)
	f.compose[len(f.compose)-2]++
	_, err := f.verify(t)
	wantCode(t, "another preimage", err, CodeEventLogInvalid)

	f.compose = nil
	claims, err := f.verify(t)
	if err != nil || claims.AppComposeProblem == "" || claims.ComposeText != "" {
		t.Errorf("no preimage: claims %+v, error %v", claims, err)
	}

	f.compose = make([]byte, appcompose.MaxSize+1)
	_, err = f.verify(t)
	wantCode(t, "long preimage", err, CodeTooLarge)
}

func TestATT33_EmptyInstanceIDIsReportedAsEmpty(t *testing.T) {
	f := newFake(t)
	f.events[3] = runtime(eventInstanceID, nil)
	claims, err := f.verifier(t).Verify(context.Background(), f.evidence(t), f.report.ReportData)
	if err != nil || claims.InstanceID != "" {
		t.Errorf("instance id %q, error %v", claims.InstanceID, err)
	}
}
