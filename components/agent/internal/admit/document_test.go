package admit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/core/appcompose/appcomposetest"
	"cadre.dev/raced"
)

const (
	documentApp   = "cccccccccccccccccccccccccccccccccccccccc"
	documentImage = "dstack-0.5.11"
)

var errNoBoot = errors.New("no guest starts with it")

// believed returns the agent's verdict on genuine evidence of a coordinator that was measured with
// raw; errNoBoot if no guest boots with raw, since it cannot parse it.
func believed(t *testing.T, cloud *attestsim.Cloud, verifier *attest.Verifier, raw []byte) error {
	t.Helper()
	guest, err := cloud.Boot(attestsim.BootConfig{AppID: documentApp, AppCompose: raw, InstanceIDSeed: bytes.Repeat([]byte{7}, 20), OSImage: documentImage})
	if err != nil {
		return fmt.Errorf("%w: %w", errNoBoot, err)
	}
	var data [64]byte
	quote, log, err := quoted(guest, data)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := verifier.Verify(t.Context(), attest.Evidence{Quote: quote, EventLog: log, AppCompose: raw}, data)
	if err != nil {
		t.Fatal(err)
	}
	return trusted(attest.Trust{
		CoordinatorAppID: documentApp, AllowSimulated: true, KeyProvider: attest.KeyProvider{Name: "kms", ID: cloud.KeyProviderID()}, Images: cloud.Images(documentImage),
	}, claims, time.Now())
}

// No coordinator is believed whose document lets something run that is not measured,
// though it is of the right app, image and key provider, and no hash is pinned.
func TestThreat_ATT_16_NoCoordinatorIsBelievedWithABadDocument(t *testing.T) {
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := attest.NewVerifier(attest.VerifierConfig{RootsPEM: cloud.RootPEM(), Collateral: cloud.CollateralSource(time.Now)})
	if err != nil {
		t.Fatal(err)
	}
	good := appcomposetest.Good("demo-coordinator", "services: {}", "CADRE_SLOT", "CADRE_GATEWAY_DOMAIN", "CADRE_PLATFORM_API_KEY")
	if err := believed(t, cloud, verifier, good); err != nil {
		t.Fatalf("a rendered document: %v", err)
	}
	cases, err := appcomposetest.Bad(good)
	if err != nil {
		t.Fatal(err)
	}
	// The agent has no spec of the coordinators: their variables are a closed list.
	for _, name := range []string{"DB_HOST", "CONSUL_HTTP_ADDR"} {
		cases = append(cases, appcomposetest.Case{Name: "env " + name, Raw: appcomposetest.Good("demo-coordinator", "services: {}", name)})
	}
	tried, booted := 0, 0
	for i, c := range cases {
		if raced.Enabled && i%10 != 0 {
			continue // each is checked by one goroutine
		}
		tried++
		err := believed(t, cloud, verifier, c.Raw)
		if errors.Is(err, errNoBoot) {
			continue
		}
		// One without the pinned key provider is refused by that, before its document.
		if booted++; err == nil || !strings.Contains(err.Error(), "BROKER_UNTRUSTED: the coordinator's app-compose") && !strings.Contains(err.Error(), "key provider") {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	if booted < tried*3/4 {
		t.Errorf("only %d of %d documents were tried", booted, tried)
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
