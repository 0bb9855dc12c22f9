package attestsim_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
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

func TestAGuestImage06HasNoEmitEvent(t *testing.T) {
	for image, want := range map[string]int{"dstack-0.5.11": http.StatusOK, "dstack-0.6.0": http.StatusNotFound} {
		cfg := bootConfig(t)
		cfg.OSImage = image
		_, socket := serve(t, openCloud(t), cfg)
		if code, _ := raw(t, socket, http.MethodPost, "/EmitEvent", `{"event":"x","payload":"79"}`); code != want {
			t.Errorf("%s: %d, want %d", image, code, want)
		}
	}
	cfg := bootConfig(t)
	cfg.OSImage, cfg.AppCompose = "dstack-0.6.0", appCompose(t, func(doc map[string]any) { doc["event_log_version"] = 2 })
	if _, err := openCloud(t).Boot(cfg); err == nil || !strings.Contains(err.Error(), "event_log_version") {
		t.Errorf("events of version 2: %v", err)
	}
}
