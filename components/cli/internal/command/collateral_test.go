package command

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
)

// service is a simulated collateral service with its root in a file.
func service(t *testing.T) (url, root string, pccs *attestsim.PCCS) {
	t.Helper()
	dir := t.TempDir()
	cloud, err := attestsim.OpenCloud(dir)
	if err != nil {
		t.Fatal(err)
	}
	pccs = cloud.NewPCCS(func() time.Time { return noon })
	server := httptest.NewServer(pccs)
	t.Cleanup(server.Close)
	return server.URL, filepath.Join(dir, "attestation-root.pem"), pccs
}

func TestCollateralIsFetchedCheckedAndShown(t *testing.T) {
	url, root, pccs := service(t)
	file := filepath.Join(t.TempDir(), "bundle.json")
	code, out := run(t, "collateral", "fetch", attestsim.FMSPC(), "--pccs", url, "--root", root, "--file", file)
	if code != 0 || !strings.Contains(out, "SIMULATED") || !strings.Contains(out, "valid until") {
		t.Fatalf("fetch: %d\n%s", code, out)
	}
	code, out = run(t, "collateral", "show", file, "--root", root, "-o", "json")
	var info struct {
		FMSPC     string `json:"fmspc"`
		TCB       int    `json:"tcb_evaluation"`
		Simulated bool
	}
	if err := json.Unmarshal([]byte(out), &info); err != nil || code != 0 || info.FMSPC != attestsim.FMSPC() || info.TCB == 0 || !info.Simulated {
		t.Errorf("show: %d %v\n%s", code, err, out)
	}
	if code, out := run(t, "collateral", "show", file); code == 0 || !strings.Contains(out, "COLLATERAL") {
		t.Errorf("under Intel's root alone: %d\n%s", code, out)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pccs.Set(attestsim.Posture{Age: 90 * 24 * time.Hour})
	if code, out := run(t, "collateral", "fetch", attestsim.FMSPC(), "--pccs", url, "--root", root, "--file", file); code == 0 || !strings.Contains(out, "COLLATERAL_EXPIRED") {
		t.Errorf("what has ended: %d\n%s", code, out)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("a bundle that serves was replaced by one that does not (%v)", err)
	}
}

func TestCollateralRefusesBadInput(t *testing.T) {
	url, root, _ := service(t)
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"version":1,"extra":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no family":      {[]string{"collateral", "fetch"}, 2, "FMSPC is missing"},
		"odd family":     {[]string{"collateral", "fetch", "90C0"}, 2, "12 lower-case hex"},
		"odd address":    {[]string{"collateral", "fetch", attestsim.FMSPC(), "--pccs", "ftp://x"}, 2, "pccs"},
		"nobody there":   {[]string{"collateral", "fetch", attestsim.FMSPC(), "--pccs", "http://127.0.0.1:1"}, 1, "127.0.0.1:1"},
		"no root file":   {[]string{"collateral", "fetch", attestsim.FMSPC(), "--pccs", url, "--root", bad + "x"}, 1, "--root"},
		"unknown fields": {[]string{"collateral", "show", bad, "--root", root}, 1, bad},
		"no file":        {[]string{"collateral", "show", bad + "x"}, 1, "no such file"},
	} {
		if code, out := run(t, c.args...); code != c.code || !strings.Contains(strings.ToLower(out), strings.ToLower(c.says)) {
			t.Errorf("%s: %d\n%s", name, code, out)
		}
	}
}
