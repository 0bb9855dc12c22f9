package attestsim_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"cadre.dev/attest"
)

// TestTheKeyServiceSignsEnvKeys: every app and every release of the
// guest agent leads to the same key, that of the cloud's key service.
func TestTheKeyServiceSignsEnvKeys(t *testing.T) {
	cloud := openCloud(t)
	for version, app := range map[string]string{"0.5.4": testAppID, "0.5.6": testAppID, "0.5.11": strings.Repeat("02", 20)} {
		cfg := bootConfig(t)
		cfg.AgentVersion, cfg.AppID = version, app
		_, socket := serve(t, cloud, cfg)
		client := attest.NewGuestClient(socket)
		got, err := client.KeyService(context.Background())
		client.Close()
		if err != nil || !bytes.Equal(got, cloud.KMSPublicKey()) {
			t.Errorf("%s: key service %x, error %v", version, got, err)
		}
	}
	_, socket := serve(t, openCloud(t), bootConfig(t))
	other := attest.NewGuestClient(socket)
	defer other.Close()
	if got, err := other.KeyService(context.Background()); err != nil || bytes.Equal(got, cloud.KMSPublicKey()) {
		t.Errorf("another cloud's key service %x, error %v", got, err)
	}
}
