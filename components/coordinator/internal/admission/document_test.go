package admission

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/appcompose/appcomposetest"
	"cadre.dev/core/policy"
	"cadre.dev/raced"
)

// shown returns the decision about genuine evidence of a CVM that was measured with raw, where the
// Slot's policy allows exactly the hash of raw.
//
// boots is false if no guest starts with raw at all, because it cannot read it.
func shown(t *testing.T, cloud *attestsim.Cloud, verifier *attest.Verifier, raw []byte, envNames string) (d policy.Decision, boots bool) {
	t.Helper()
	guest, err := cloud.Boot(attestsim.BootConfig{AppID: workloadApp, AppCompose: raw, InstanceIDSeed: bytes.Repeat([]byte{7}, 20), OSImage: osImage})
	if err != nil {
		return policy.Decision{}, false
	}
	var data [64]byte
	quote, reply, err := quoted(guest, data)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := verifier.Verify(t.Context(), attest.Evidence{Quote: quote, EventLog: reply, AppCompose: raw}, data)
	if err != nil {
		t.Fatal(err)
	}
	text := sha256.Sum256([]byte(claims.ComposeText))
	sp := policy.SlotPolicy{
		Group: "pg", Slot: "pg-0", AppID: workloadApp, InstanceID: guest.InstanceID(),
		Allowed: []policy.AllowedRevision{{
			Revision: revision, ComposeHash: appcompose.Hash(raw), ComposeTextSHA256: hex.EncodeToString(text[:]), OSImage: osImage, EnvNames: envNames,
		}},
	}
	ip := policy.ImagePolicy{Images: cloud.Images(osImage), KeyProviderName: "kms", KeyProviderID: cloud.KeyProviderID(), AllowSimulated: true}
	return policy.Appraise(sp, ip, policy.Statement{
		Group: "pg", Slot: "pg-0", AppID: claims.AppID, InstanceID: claims.InstanceID, ComposeHash: claims.ComposeHash,
	}, claims, time.Now()), true
}

func verifierOf(t *testing.T) (*attestsim.Cloud, *attest.Verifier) {
	t.Helper()
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := attest.NewVerifier(attest.VerifierConfig{RootsPEM: cloud.RootPEM(), Collateral: cloud.CollateralSource(time.Now)})
	if err != nil {
		t.Fatal(err)
	}
	return cloud, verifier
}

// Each bad value of each key, each unknown key and each name that steers code is refused, even if
// the policy allows its very hash.
func TestThreat_ATT_16_NoMemberIsAdmittedWithABadDocument(t *testing.T) {
	cloud, verifier := verifierOf(t)
	good := appcomposetest.Good("demo-pg", composeText)
	if d, _ := shown(t, cloud, verifier, good, ""); !d.Allowed {
		t.Fatalf("a rendered document: %+v", d)
	}
	cases, err := appcomposetest.Bad(good)
	if err != nil {
		t.Fatal(err)
	}
	tried, booted := 0, 0
	for i, c := range cases {
		if raced.Enabled && i%10 != 0 {
			continue // each is checked by one goroutine
		}
		tried++
		d, boots := shown(t, cloud, verifier, c.Raw, "")
		if boots {
			booted++
		}
		// A key provider that is not the pinned one is refused before the document is.
		if d.Allowed || boots && d.Code != policy.CodeComposeForbidden && d.Code != policy.CodeKMSPolicyMismatch && d.Code != policy.CodeAppIDMismatch && d.Code != policy.CodeInstanceMismatch {
			t.Errorf("%s: %+v", c.Name, d)
		}
	}
	if booted < tried*3/4 {
		t.Errorf("only %d of %d documents were tried", booted, tried)
	}
}

// The environment may set the names of the Revision and Cadre's locators, and no other names.
func TestThreat_ATT_17_NoMemberIsAdmittedWithAnUnknownEnvName(t *testing.T) {
	cloud, verifier := verifierOf(t)
	for _, c := range []struct {
		allowed  []string
		names    string
		admitted bool
	}{
		{nil, "", true},
		{[]string{"DB_HOST"}, "DB_HOST", true},
		{[]string{"DB_HOST", "CADRE_GATEWAY_DOMAIN"}, "DB_HOST", true},
		{nil, "DB_HOST", true},
		{[]string{"DB_HOST"}, "", false},
		{[]string{"DB_HOST", "DB_PORT"}, "DB_HOST", false},
		{[]string{"CADRE_SLOT"}, "", false},
		{[]string{"CADRE_PLATFORM_API_KEY"}, "DB_HOST", false},
		{[]string{"LD_PRELOAD"}, "LD_PRELOAD", false},
		{[]string{"COMPOSE_FILE"}, "COMPOSE_FILE", false},
	} {
		d, _ := shown(t, cloud, verifier, appcomposetest.Good("demo-pg", composeText, c.allowed...), c.names)
		if d.Allowed != c.admitted || !d.Allowed && d.Code != policy.CodeComposeForbidden {
			t.Errorf("allowed_envs %v, env %q: %+v", c.allowed, c.names, d)
		}
	}
}

// quoted asks the CVM's guest agent for a quote of data.
func quoted(guest *attestsim.Guest, data [64]byte) (quote []byte, eventLog string, err error) {
	answer := httptest.NewRecorder()
	guest.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/GetQuote", strings.NewReader(`{"report_data":"`+hex.EncodeToString(data[:])+`"}`)))
	var reply struct {
		Quote    string `json:"quote"`
		EventLog string `json:"event_log"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &reply); err != nil {
		return nil, "", err
	}
	quote, err = hex.DecodeString(reply.Quote)
	return quote, reply.EventLog, err
}
