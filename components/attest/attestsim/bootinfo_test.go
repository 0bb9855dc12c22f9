package attestsim

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestAKeyRequestNamesTheGuestAndItsMachine(t *testing.T) {
	c, err := OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	boot := func(change func(*BootConfig)) *Guest {
		t.Helper()
		cfg := BootConfig{AppID: strings.Repeat("ab", 20), AppCompose: []byte(`{"name":"a"}`), InstanceIDSeed: make([]byte, 20), OSImage: "dstack-0.5.7"}
		change(&cfg)
		g, err := c.Boot(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := boot(func(*BootConfig) {})
	first := g.KeyRequest(Posture{})
	if first.AppID != strings.Repeat("ab", 20) || first.ComposeHash != g.ComposeHash() || first.InstanceID != g.InstanceID() || first.KeyProviderInfo != "" || first.TCBStatus != "UpToDate" {
		t.Errorf("request of a guest: %+v", first)
	}
	same := boot(func(*BootConfig) {}).KeyRequest(Posture{})
	other := boot(func(cfg *BootConfig) { cfg.Machine = 1 }).KeyRequest(Posture{})
	if same.DeviceID != first.DeviceID || other.DeviceID == first.DeviceID || other.MRAggregated != first.MRAggregated || other.MRSystem != first.MRSystem {
		t.Errorf("requests of two machines: %+v and %+v", first, other)
	}
	document := boot(func(cfg *BootConfig) { cfg.AppCompose = []byte(`{"name":"b"}`) }).KeyRequest(Posture{})
	if document.MRAggregated == first.MRAggregated || document.MRSystem != first.MRSystem || document.OSImageHash != first.OSImageHash {
		t.Errorf("another document: %+v", document)
	}
	image := boot(func(cfg *BootConfig) { cfg.OSImage = "dstack-0.5.11" }).KeyRequest(Posture{})
	if image.MRSystem == first.MRSystem || image.OSImageHash == first.OSImageHash {
		t.Errorf("another image: %+v", image)
	}
	if first.OSImageHash != ImageDigest("dstack-0.5.7") || image.OSImageHash != ImageDigest("dstack-0.5.11") {
		t.Errorf("digests of images: %s and %s", first.OSImageHash, image.OSImageHash)
	}
	if text, err := json.Marshal(first); err != nil || !strings.Contains(string(text), `"advisoryIds":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestAKeyRequestIsRatedAsTheCollateralRatesTheMachine(t *testing.T) {
	c, err := OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	replaced := Posture{Replaced: time.Unix(0, 0), Advisories: []string{"SIM-1"}}
	for name, x := range map[string]struct {
		posture Posture
		host    string
		want    string
	}{
		"all well":              {Posture{}, "", "UpToDate"},
		"a status":              {Posture{Platform: "Revoked"}, "", "Revoked"},
		"before the update":     {replaced, "", "OutOfDate"},
		"after the update":      {replaced, UpdatedHost(""), "UpToDate"},
		"a status in its place": {Posture{Platform: "OutOfDateConfigurationNeeded", Replaced: time.Unix(0, 0)}, "", "OutOfDateConfigurationNeeded"},
	} {
		g, err := c.Boot(BootConfig{AppID: strings.Repeat("ab", 20), AppCompose: []byte(`{}`), OSImage: "dstack-0.5.7", Host: x.host})
		if err != nil {
			t.Fatal(err)
		}
		if got := g.KeyRequest(x.posture); got.TCBStatus != x.want {
			t.Errorf("%s: %s with %v, want %s", name, got.TCBStatus, got.AdvisoryIDs, x.want)
		}
	}
}
