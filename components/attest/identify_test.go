package attest

import (
	"bytes"
	"strings"
	"testing"
)

func TestConfigIDs(t *testing.T) {
	c := configID{composeHash: bytes.Repeat([]byte{2}, 32), appID: bytes.Repeat([]byte{1}, 20), keyProvider: "kms", keyProviderID: "3059"}
	if got, want := c.v1(), "01"+strings.Repeat("02", 32)+strings.Repeat("00", 15); got != want {
		t.Errorf("V1 = %s, want %s", got, want)
	}
	got, err := c.v2()
	if want := "02e6b699c5a73baf04f329c15c7b5d5a6f4fffb388ae6ed57e3df86af008c89ecc" + strings.Repeat("00", 15); err != nil || got != want {
		t.Errorf("V2 = %s, %v, want %s", got, err, want)
	}
	for _, bad := range []configID{{keyProvider: "usb"}, {keyProvider: "kms", keyProviderID: "xyz"}} {
		if _, err := bad.v2(); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestIdentifyDerivesTheNamesOfADocument(t *testing.T) {
	raw := []byte(`{"allowed_envs":["B","A"],"docker_compose_file":"services:\n  app:\n    image: nginx:1.27\n","gateway_enabled":true,"key_provider":"kms","kms_enabled":true,"manifest_version":2,"name":"web-0","public_logs":false,"public_sysinfo":true,"runner":"docker-compose","secure_time":false}`)
	const hash = "4e2dcf86072305d02af2153ed3f74fe090d13c87bf809158b2431a4e036acced"
	ids, err := Identify(raw, "", "kms", "3059")
	if err != nil || ids.ComposeHash != hash || ids.AppID != hash[:40] || ids.MRConfigIDV1 != "01"+hash+strings.Repeat("0", 30) || !strings.HasPrefix(ids.MRConfigIDV2, "02") || len(ids.MRConfigIDV2) != 96 {
		t.Errorf("ids %+v, %v", ids, err)
	}
	for _, bad := range []string{"12", "zz", strings.Repeat("0", 41)} {
		if _, err := Identify(raw, bad, "kms", ""); err == nil {
			t.Errorf("app id %q was accepted", bad)
		}
	}
}
