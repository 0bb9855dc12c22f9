package attestsim_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/core/policy"
)

func TestFaultsAreSeen(t *testing.T) {
	cloud := openCloud(t)
	v := newVerifier(t, cloud.RootPEM())
	for _, c := range []struct {
		name   string
		faults attestsim.Faults
		want   policy.Code
	}{
		{"ATT-07 debug TD", attestsim.Faults{DebugTD: true}, attest.CodeTDDebug},
		{"ATT-15 wrong compose hash", attestsim.Faults{WrongComposeHash: true}, attest.CodeEventLogInvalid},
		{"ATT-18 tampered log", attestsim.Faults{TamperLog: true}, attest.CodeEventLogInvalid},
		{"ATT-01 foreign root", attestsim.Faults{ForeignRoot: true}, attest.CodeQuoteInvalid},
		{"ATT-19 no system-ready", attestsim.Faults{NoSystemReady: true}, attest.CodeEventLogAmbiguous},
		{"ATT-19 unknown boot event", attestsim.Faults{ExtraBootEvent: "gpu-policy-hash"}, attest.CodeEventLogAmbiguous},
		{"ATT-19 second compose-hash", attestsim.Faults{ExtraBootEvent: "compose-hash"}, attest.CodeEventLogAmbiguous},
	} {
		cfg := bootConfig(t)
		cfg.Faults = c.faults
		_, err := v.Verify(context.Background(), quoted(t, cloud, cfg, [64]byte{5}), [64]byte{5})
		t.Run(c.name, func(t *testing.T) { wantCode(t, err, c.want) })
	}
}

// TestATT20_ATT21_ForeignBootsShowInTheClaims: both are genuine quotes, so only
// the claims differ.
func TestATT20_ATT21_ForeignBootsShowInTheClaims(t *testing.T) {
	cloud := openCloud(t)
	v := newVerifier(t, cloud.RootPEM())
	cfg := bootConfig(t)
	known := cloud.Images(cfg.OSImage)[cfg.OSImage][0]

	cfg.Faults = attestsim.Faults{ForeignImage: true}
	claims, err := v.Verify(context.Background(), quoted(t, cloud, cfg, [64]byte{}), [64]byte{})
	if err != nil || claims.MRTD == known.MRTD || claims.RTMR2 == known.RTMR2 {
		t.Errorf("foreign image: claims %+v, error %v", claims, err)
	}
	cfg.Faults = attestsim.Faults{ForeignKeyProvider: true}
	claims, err = v.Verify(context.Background(), quoted(t, cloud, cfg, [64]byte{}), [64]byte{})
	if err != nil || claims.KeyProviderID == cloud.KeyProviderID() || claims.MRTD != known.MRTD {
		t.Errorf("foreign key provider: claims %+v, error %v", claims, err)
	}
}

func TestATT09_ReplayedQuoteDoesNotFitNewData(t *testing.T) {
	cloud := openCloud(t)
	cfg := bootConfig(t)
	cfg.Faults = attestsim.Faults{ReplayQuote: true, FailQuotes: 1}
	_, socket := serve(t, cloud, cfg)
	client := attest.NewGuestClient(socket)
	defer client.Close()
	if _, err := client.GetQuote(context.Background(), []byte{1}); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("the first quote should fail: %v", err)
	}
	for i, want := range []policy.Code{"", attest.CodeReportDataMismatch} {
		data := [64]byte{byte(i)}
		ev, err := client.GetQuote(context.Background(), data[:])
		if err != nil {
			t.Fatal(err)
		}
		_, err = newVerifier(t, cloud.RootPEM()).Verify(context.Background(), ev, data)
		if want != "" {
			wantCode(t, err, want)
		} else if err != nil {
			t.Error(err)
		}
	}
}

func TestIdentityLivesAsPlatformSays(t *testing.T) {
	cloud := openCloud(t)
	instance := func(change func(*attestsim.BootConfig)) string {
		t.Helper()
		cfg := bootConfig(t)
		change(&cfg)
		g, err := cloud.Boot(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return g.InstanceID()
	}
	base := instance(func(*attestsim.BootConfig) {})
	if base != "e359603cde0bd979ab0be9768041f4e060481314" {
		t.Errorf("instance id %s is not the vector's", base)
	}
	if got := instance(func(c *attestsim.BootConfig) { c.AppCompose = []byte(`{}`) }); got != base {
		t.Error("an update in place changed the instance id")
	}
	if got := instance(func(c *attestsim.BootConfig) { c.InstanceIDSeed = bytes.Repeat([]byte{1}, 20) }); got == base {
		t.Error("a replace kept the instance id")
	}
	if got := instance(func(c *attestsim.BootConfig) { c.InstanceIDSeed = nil }); got != "" {
		t.Errorf("no_instance_id gives %q", got)
	}
}

func TestBootRejectsImpossibleConfigurations(t *testing.T) {
	cloud := openCloud(t)
	for name, change := range map[string]func(*attestsim.BootConfig){
		"app id":       func(c *attestsim.BootConfig) { c.AppID = "app_01" },
		"seed":         func(c *attestsim.BootConfig) { c.InstanceIDSeed = []byte{1} },
		"OS image":     func(c *attestsim.BootConfig) { c.OSImage = "" },
		"version":      func(c *attestsim.BootConfig) { c.AgentVersion = "latest" },
		"app-compose":  func(c *attestsim.BootConfig) { c.AppCompose = []byte("services: {}") },
		"no such part": func(c *attestsim.BootConfig) { c.AgentVersion = "0.5" },
	} {
		cfg := bootConfig(t)
		change(&cfg)
		if _, err := cloud.Boot(cfg); err == nil {
			t.Errorf("%s: booted", name)
		}
	}
}

func TestCloudIsTheSameWhenOpenedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cloud")
	first, err := attestsim.OpenCloud(dir)
	if err != nil {
		t.Fatal(err)
	}
	ev := quoted(t, first, bootConfig(t), [64]byte{1})
	again, err := attestsim.OpenCloud(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.RootPEM(), again.RootPEM()) || first.KeyProviderID() != again.KeyProviderID() ||
		!bytes.Equal(first.KMSPublicKey(), again.KMSPublicKey()) || !reflect.DeepEqual(first.Images(), again.Images()) {
		t.Error("another cloud came out of the same folder")
	}
	if _, err := newVerifier(t, again.RootPEM()).Verify(context.Background(), ev, [64]byte{1}); err != nil {
		t.Errorf("a quote of the first opening: %v", err)
	}
	if other := quoted(t, again, bootConfig(t), [64]byte{1}); !bytes.Equal(other.Quote, ev.Quote) {
		t.Error("the same boot is quoted differently after opening again")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", entry.Name(), info.Mode())
		}
	}
	if len(entries) != 2 {
		t.Errorf("%d files, want 2", len(entries))
	}
	if other := openCloud(t); bytes.Equal(other.RootPEM(), first.RootPEM()) {
		t.Error("two clouds share a root")
	}
}

func TestEnvKeyBelongsToTheApp(t *testing.T) {
	cloud := openCloud(t)
	key, err := cloud.EnvKey(testAppID)
	if err != nil {
		t.Fatal(err)
	}
	again, err := cloud.EnvKey(testAppID)
	if err != nil || !key.Equal(again) {
		t.Errorf("the key of an app changed: %v", err)
	}
	other, err := cloud.EnvKey(strings.Repeat("02", 20))
	if err != nil || key.Equal(other) {
		t.Errorf("two apps share a key: %v", err)
	}
}
