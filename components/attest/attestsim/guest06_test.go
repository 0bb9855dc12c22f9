package attestsim_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
)

// TestATT18_AGuestImage06IsVerified: its boot log has other events, and MRCONFIGID another version where the
// document names a key provider.
func TestATT18_AGuestImage06IsVerified(t *testing.T) {
	cloud := openCloud(t)
	provider := func(doc map[string]any) { doc["key_provider_id"] = cloud.KeyProviderID() }
	for name, c := range map[string]struct {
		edit   func(map[string]any)
		config byte
	}{
		"as Cadre renders it":  {nil, 1},
		"a named key provider": {provider, 3},
		"a manifest of version 3": {func(doc map[string]any) {
			provider(doc)
			doc["manifest_version"], doc["requirements"] = "3", map[string]any{"os_version": ">=0.6.0"}
		}, 3},
	} {
		cfg := bootConfig(t)
		cfg.OSImage, cfg.AppCompose = "dstack-0.6.0", appCompose(t, c.edit)
		data := [64]byte{6}
		ev := quoted(t, cloud, cfg, data)
		if config := ev.Quote[232]; config != c.config {
			t.Errorf("%s: MRCONFIGID has version %d, want %d", name, config, c.config)
		}
		for event, want := range map[string]bool{"gpu-policy-hash": true, "init-script-hash": true, "mr-kms": false} {
			if strings.Contains(ev.EventLog, `"event":"`+event+`"`) != want {
				t.Errorf("%s: event %s in the boot log: want %t", name, event, want)
			}
		}
		got, err := newVerifier(t, cloud.RootPEM()).Verify(context.Background(), ev, data)
		if err != nil || got.AppComposeProblem != "" {
			t.Errorf("%s: %v, %s", name, err, got.AppComposeProblem)
		}
	}
}

// TestATT18_AnMRCONFIGIDOfAnotherDocumentIsRefused in version 1 and in version 3, at the verifier of a coordinator.
func TestATT18_AnMRCONFIGIDOfAnotherDocumentIsRefused(t *testing.T) {
	cloud := openCloud(t)
	for config, edit := range map[byte]func(map[string]any){
		1: nil,
		3: func(doc map[string]any) { doc["key_provider_id"] = cloud.KeyProviderID() },
	} {
		cfg := bootConfig(t)
		cfg.OSImage, cfg.AppCompose, cfg.Faults = "dstack-0.6.0", appCompose(t, edit), attestsim.Faults{ForeignConfig: true}
		data := [64]byte{6}
		ev := quoted(t, cloud, cfg, data)
		if got := ev.Quote[232]; got != config {
			t.Errorf("MRCONFIGID has version %d, want %d", got, config)
		}
		_, err := newVerifier(t, cloud.RootPEM()).Verify(context.Background(), ev, data)
		wantCode(t, err, attest.CodeTDAttributesForbidden)
	}
}

// TestCallsOfAGuestImage06: dstack 0.6 drops EmitEvent, and adds GpuInfo and a check of the times of a certificate.
func TestCallsOfAGuestImage06(t *testing.T) {
	for _, c := range []struct {
		path, body string
		code       map[string]int
		want       string // in the answer of 0.6
	}{
		{"/EmitEvent", `{"event":"x","payload":"79"}`, map[string]int{"0.5.11": http.StatusOK, "0.6.0": http.StatusNotFound}, "Method not found"},
		{"/GpuInfo", `{}`, map[string]int{"0.5.11": http.StatusNotFound, "0.6.0": http.StatusOK}, `{"attestation":""}`},
		{"/GetTlsKey", `{"not_before":7,"not_after":7}`, map[string]int{"0.5.11": http.StatusOK, "0.6.0": http.StatusBadRequest}, "not_before must be earlier than not_after"},
	} {
		for version, want := range c.code {
			cfg := bootConfig(t)
			cfg.OSImage = "dstack-" + version
			_, socket := serve(t, openCloud(t), cfg)
			code, answer := raw(t, socket, http.MethodPost, c.path, c.body)
			if code != want || version == "0.6.0" && !strings.Contains(answer, c.want) {
				t.Errorf("%s at %s: %d %s, want %d", c.path, version, code, answer, want)
			}
		}
	}
	cfg := bootConfig(t)
	cfg.OSImage, cfg.AppCompose = "dstack-0.6.0", appCompose(t, func(doc map[string]any) { doc["event_log_version"] = 2 })
	if _, err := openCloud(t).Boot(cfg); err == nil || !strings.Contains(err.Error(), "event_log_version") {
		t.Errorf("events of version 2: %v", err)
	}
}
