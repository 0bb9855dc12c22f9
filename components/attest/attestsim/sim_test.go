package attestsim_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
)

// testNow is inside the validity of every simulated certificate.
func testNow() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) }

const testAppID = "0101010101010101010101010101010101010101"

func appCompose(t testing.TB, change func(map[string]any)) []byte {
	t.Helper()
	fields := map[string]any{
		"manifest_version": 2, "name": "web-0", "runner": "docker-compose",
		"docker_compose_file": "services:\n  app:\n    image: nginx@sha256:00\n",
		"kms_enabled":         true, "key_provider": "kms", "gateway_enabled": true, "secure_time": true, "init_script": appcompose.InitScript,
	}
	if change != nil {
		change(fields)
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func openCloud(t testing.TB) *attestsim.Cloud {
	t.Helper()
	c, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func bootConfig(t testing.TB) attestsim.BootConfig {
	return attestsim.BootConfig{
		AppID: testAppID, AppCompose: appCompose(t, nil),
		InstanceIDSeed: bytes.Repeat([]byte{0xaa}, 20), OSImage: "dstack-0.5.11",
	}
}

// serve puts the guest's handler on a unix socket and returns its path.
func serve(t testing.TB, c *attestsim.Cloud, cfg attestsim.BootConfig) (*attestsim.Guest, string) {
	t.Helper()
	g, err := c.Boot(cfg)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "dstack.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: g.Handler()}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return g, socket
}

func newVerifier(t testing.TB, roots []byte) *attest.Verifier {
	t.Helper()
	v, err := attest.NewVerifier(attest.VerifierConfig{RootsPEM: roots, Now: testNow})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// quoted boots a guest and returns its evidence for data.
func quoted(t testing.TB, c *attestsim.Cloud, cfg attestsim.BootConfig, data [64]byte) attest.Evidence {
	t.Helper()
	_, socket := serve(t, c, cfg)
	client := attest.NewGuestClient(socket)
	t.Cleanup(client.Close)
	ev, err := client.GetQuote(context.Background(), data[:])
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func wantCode(t *testing.T, err error, want policy.Code) {
	t.Helper()
	var refused *attest.Error
	if !errors.As(err, &refused) || refused.Code != want {
		t.Errorf("got error %v, want code %s", err, want)
	}
}

func TestVerifierAcceptsSimulatedEvidenceUnderItsRoot(t *testing.T) {
	for _, version := range []string{"0.5.4", "0.5.5", "0.5.6", "0.5.11"} {
		t.Run(version, func(t *testing.T) {
			cloud := openCloud(t)
			cfg := bootConfig(t)
			cfg.AgentVersion = version
			data := [64]byte{1, 2, 3}
			ev := quoted(t, cloud, cfg, data)
			got, err := newVerifier(t, cloud.RootPEM()).Verify(context.Background(), ev, data)
			if err != nil {
				t.Fatal(err)
			}
			m := cloud.Images("dstack-0.5.11")["dstack-0.5.11"][0]
			composeHash := sha256.Sum256(cfg.AppCompose)
			want := policy.Claims{
				AppID: testAppID, InstanceID: "e359603cde0bd979ab0be9768041f4e060481314",
				ComposeHash: hex.EncodeToString(composeHash[:]), ComposeText: "services:\n  app:\n    image: nginx@sha256:00\n",
				KeyProviderName: "kms", KeyProviderID: cloud.KeyProviderID(),
				MRTD: m.MRTD, RTMR0: m.RTMR0, RTMR1: m.RTMR1, RTMR2: m.RTMR2,
				OSImageHash: got.OSImageHash, Simulated: true, Machine: got.Machine,
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("claims:\n got %+v\nwant %+v", got, want)
			}
			if len(got.OSImageHash) != 64 {
				t.Errorf("os image hash %q is not 64 hex characters", got.OSImageHash)
			}

			_, err = newVerifier(t, nil).Verify(context.Background(), ev, data)
			wantCode(t, err, attest.CodeQuoteInvalid)
		})
	}
}
