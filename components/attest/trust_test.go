package attest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/policy"
)

// trustFile is a good trust file, with one part changed.
func trustFile(t testing.TB, roots []byte, change func(map[string]any)) []byte {
	t.Helper()
	register := strings.Repeat("0a", 48)
	fields := map[string]any{
		"cluster":               "test",
		"coordinator_app_id":    strings.Repeat("01", 20),
		"roots_pem":             string(roots),
		"key_provider":          map[string]any{"name": "kms", "id": strings.Repeat("30", 91)},
		"images":                map[string]any{"dstack-0.5.11": []any{map[string]any{"mrtd": register, "rtmr0": register, "rtmr1": register, "rtmr2": register}}},
		"allow_simulated":       len(roots) > 0,
		"operator_token_sha256": strings.Repeat("0b", 32),
	}
	if change != nil {
		change(fields)
	}
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTrustFile(t *testing.T) {
	cloud := openCloud(t)
	path := filepath.Join(t.TempDir(), "trust.json")
	if err := os.WriteFile(path, trustFile(t, cloud.RootPEM(), nil), 0o600); err != nil {
		t.Fatal(err)
	}
	trust, raw, err := LoadTrust(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) == 0 {
		t.Error("the bytes are not handed on")
	}
	images := trust.ImagePolicy()
	if !images.AllowSimulated || images.KeyProviderName != "kms" || len(images.Images["dstack-0.5.11"]) != 1 {
		t.Errorf("image policy %+v", images)
	}
	if _, err := NewVerifier(trust.VerifierConfig()); err != nil {
		t.Error(err)
	}
	if trust.VerifierConfig().RootsPEM == nil {
		t.Error("the roots are not handed on")
	}
	if _, _, err := LoadTrust(path + ".missing"); err == nil {
		t.Error("a missing file was loaded")
	}
}

func TestATT21_TrustFilesWithoutAPinAreRejected(t *testing.T) {
	root := openCloud(t).RootPEM()
	set := func(key string, value any) func(map[string]any) {
		return func(f map[string]any) { f[key] = value }
	}
	drop := func(key string) func(map[string]any) {
		return func(f map[string]any) { delete(f, key) }
	}
	image := func(change func(map[string]any)) func(map[string]any) {
		return func(f map[string]any) {
			m := map[string]any{}
			for _, r := range []string{"mrtd", "rtmr0", "rtmr1", "rtmr2"} {
				m[r] = strings.Repeat("0a", 48)
			}
			change(m)
			f["images"] = map[string]any{"x": []any{m}}
		}
	}
	for _, c := range []struct {
		name   string
		change func(map[string]any)
		want   string
	}{
		{"no key provider", drop("key_provider"), "key_provider"},
		{"key provider none", set("key_provider", map[string]any{"name": "none", "id": ""}), "pins no key provider"},
		{"key provider without id", set("key_provider", map[string]any{"name": "kms", "id": ""}), "key_provider.id"},
		{"upper-case id", set("key_provider", map[string]any{"name": "kms", "id": strings.Repeat("AB", 32)}), "lower-case"},
		{"unknown provider", set("key_provider", map[string]any{"name": "mine", "id": strings.Repeat("30", 91)}), "is not kms"},
		{"a provider on the host", set("key_provider", map[string]any{"name": "local-sgx", "id": strings.Repeat("30", 32)}), "can never be admitted"},
		{"a TPM", set("key_provider", map[string]any{"name": "tpm", "id": strings.Repeat("30", 32)}), "can never be admitted"},
		{"a pin without a service", set("collateral", map[string]any{"pccs_cert_sha256": strings.Repeat("30", 32), "bundle_path": "/b"}), "pccs_url is empty"},
		{"a pin of a plain connection", set("collateral", map[string]any{"pccs_cert_sha256": strings.Repeat("30", 32), "pccs_url": "http://pccs.example"}), "https"},
		{"no images", drop("images"), "images is empty"},
		{"image without measurements", set("images", map[string]any{"x": []any{}}), "no measurements"},
		{"image without name", set("images", map[string]any{"": []any{}}), "without a name"},
		{"image without MRTD", image(func(m map[string]any) { delete(m, "mrtd") }), "mrtd"},
		{"image with a short RTMR", image(func(m map[string]any) { m["rtmr2"] = "00" }), "rtmr2"},
		{"image with an unknown register", image(func(m map[string]any) { m["rtmr3"] = "00" }), "unknown key"},
		{"cluster is no label", set("cluster", "My.Cluster"), "cluster"},
		{"no cluster", drop("cluster"), "cluster"},
		{"app id with 0x", set("coordinator_app_id", "0x"+strings.Repeat("01", 20)), "coordinator_app_id"},
		{"coordinator's hash with 0x", set("coordinator_compose_hashes", []any{"0x" + strings.Repeat("01", 32)}), "coordinator_compose_hashes[0]"},
		{"coordinator's hash in upper case", set("coordinator_compose_hashes", []any{strings.Repeat("01", 32), strings.Repeat("AB", 32)}), "coordinator_compose_hashes[1]"},
		{"coordinator's hash is empty", set("coordinator_compose_hashes", []any{""}), "coordinator_compose_hashes[0]"},
		{"coordinator's hash is no list", set("coordinator_compose_hashes", strings.Repeat("01", 32)), "coordinator_compose_hashes"},
		{"too many hashes of coordinators", set("coordinator_compose_hashes", slices.Repeat([]any{strings.Repeat("01", 32)}, 65)), "65 entries"},
		{"cluster ID in upper case", set("cluster_id", strings.Repeat("AB", 16)), "cluster_id"},
		{"cluster ID that is too short", set("cluster_id", "ab"), "cluster_id"},
		{"cluster ID of zeros", set("cluster_id", strings.Repeat("0", 32)), "cluster_id"},
		{"root is no PEM", set("roots_pem", "hello"), "roots_pem"},
		{"root is Intel's", set("roots_pem", string(intelRootPEM)), "Intel's"},
		{"simulated without a root", set("roots_pem", ""), "set both or neither"},
		{"a root without simulated", set("allow_simulated", false), "set both or neither"},
		{"operator hash", set("operator_token_sha256", "secret"), "operator_token_sha256"},
		{"script hash", set("pre_launch_scripts_sha256", []any{"x"}), "pre_launch_scripts_sha256"},
		{"collateral from a file url", set("collateral", map[string]any{"pccs_url": "file:///x"}), "collateral.pccs_url"},
		{"collateral with a long age", set("collateral", map[string]any{"max_age": "1000h"}), "collateral.max_age"},
		{"collateral with a short age", set("collateral", map[string]any{"max_age": "1m"}), "collateral.max_age"},
		{"collateral with no age", set("collateral", map[string]any{"max_age": "soon"}), "collateral.max_age"},
		{"collateral relative path", set("collateral", map[string]any{"bundle_path": "x"}), "collateral.bundle_path"},
		{"collateral with more", set("collateral", map[string]any{"check": false}), "unknown key"},
		{"an exception without end", set("tcb", map[string]any{"exceptions": []any{map[string]any{"status": "OutOfDate", "until": "2999-01-01T00:00:00Z", "reason": "x"}}}), "more than 30 days"},
		{"an exception without an end", set("tcb", map[string]any{"exceptions": []any{map[string]any{"status": "OutOfDate", "reason": "x"}}}), "until is missing"},
		{"an exception for all", set("tcb", map[string]any{"exceptions": []any{map[string]any{"status": "Revoked", "until": "2020-01-01T00:00:00Z", "reason": "x"}}}), "status"},
		{"tcb with more", set("tcb", map[string]any{"skip": true}), "unknown key"},
		{"verifier anywhere over http", set("dstack_verifier", map[string]any{"url": "http://verifier:8080"}), "dstack_verifier.url"},
		{"unknown key", set("trust_everything", true), "unknown key"},
		{"folded key", func(f map[string]any) { f["Cluster"] = f["cluster"]; delete(f, "cluster") }, "must be written"},
		{"wrong type", set("allow_simulated", "yes"), "allow_simulated"},
	} {
		_, err := ParseTrust(trustFile(t, root, c.change))
		if codeOf(err) != CodePolicyInvalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want it to say %q", c.name, err, c.want)
		}
	}
}

func TestMayCoordinate(t *testing.T) {
	known, other := strings.Repeat("01", 32), strings.Repeat("02", 32)
	trust, err := ParseTrust(trustFile(t, nil, func(f map[string]any) { f["coordinator_compose_hashes"] = []any{known} }))
	if err != nil {
		t.Fatal(err)
	}
	if !trust.MayCoordinate(known) || trust.MayCoordinate(other) || trust.MayCoordinate("") {
		t.Errorf("a list of %v", trust.CoordinatorComposeHashes)
	}
	if trust.CoordinatorComposeHashes = nil; !trust.MayCoordinate(other) {
		t.Error("without a list any compose hash of the app is believed")
	}
}

func TestTrustFileReportsAllProblems(t *testing.T) {
	_, err := ParseTrust([]byte(`{}`))
	for _, want := range []string{"cluster", "coordinator_app_id", "key_provider.name", "key_provider.id", "images"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	_, err = ParseTrust(make([]byte, MaxTrustSize+1))
	wantCode(t, "too long", err, CodeTooLarge)
}

func TestImagePolicyIsACopy(t *testing.T) {
	trust, err := ParseTrust(trustFile(t, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	images := trust.ImagePolicy().Images
	images["dstack-0.5.11"][0].MRTD = "changed"
	maps.DeleteFunc(images, func(string, []policy.Measurement) bool { return true })
	if got := trust.Images["dstack-0.5.11"]; len(got) != 1 || got[0].MRTD == "changed" {
		t.Errorf("the trust file changed with its copy: %+v", got)
	}
}

func TestCollateralOfATrustFile(t *testing.T) {
	parse := func(c map[string]any) Trust {
		t.Helper()
		trust, err := ParseTrust(trustFile(t, nil, func(f map[string]any) {
			if c != nil {
				f["collateral"] = c
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		return trust
	}
	// An agent needs none, a coordinator does.
	if _, err := parse(nil).CollateralSource(nil); err == nil || !strings.Contains(err.Error(), "collateral.pccs_url") {
		t.Errorf("no source: %v", err)
	}
	for _, c := range []map[string]any{
		{"pccs_url": "https://pccs.example"}, {"bundle_path": "/etc/collateral"}, {"pccs_url": "http://10.0.0.1", "bundle_path": "/x", "max_age": "168h"},
	} {
		trust := parse(c)
		if _, err := trust.CollateralSource(nil); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	if got := parse(map[string]any{"max_age": "168h"}).VerifierConfig().MaxCollateralAge; got != 168*time.Hour {
		t.Errorf("age limit %s", got)
	}
}

func TestOPS12_ExceptionsOfATrustFileReachThePolicy(t *testing.T) {
	until := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	trust, err := ParseTrust(trustFile(t, nil, func(f map[string]any) {
		f["tcb"] = map[string]any{"exceptions": []any{map[string]any{
			"status": "SWHardeningNeeded", "advisories": []any{"INTEL-SA-00615"}, "until": until.Format(time.RFC3339), "reason": "firmware comes",
		}}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	tcb := policy.TCB{Status: "SWHardeningNeeded", Advisories: []string{"INTEL-SA-00615"}}
	for at, want := range map[time.Time]bool{until.Add(-time.Hour): true, until: false} {
		if d := policy.AppraiseTCB(trust.ImagePolicy().TCB, tcb, at); d.Allowed != want {
			t.Errorf("at %s: %+v", at, d)
		}
	}
}

// TestATT04_TheGraceOfATrustFileReachesThePolicy: within its bound only, and none where it is not
// named.
func TestATT04_TheGraceOfATrustFileReachesThePolicy(t *testing.T) {
	now := time.Now()
	old := policy.TCB{Status: "OutOfDate", ReplacedAt: now.Add(-370 * 24 * time.Hour)}
	for days, want := range map[int]bool{0: false, 370: false, 425: true} {
		trust, err := ParseTrust(trustFile(t, nil, func(f map[string]any) {
			if days > 0 {
				f["tcb"] = map[string]any{"grace_days": days}
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		if d := policy.AppraiseTCB(trust.ImagePolicy().TCB, old, now); d.Allowed != want {
			t.Errorf("grace of %d days: %+v", days, d)
		}
	}
	if _, err := ParseTrust(trustFile(t, nil, func(f map[string]any) { f["tcb"] = map[string]any{"grace_days": 456} })); codeOf(err) != CodePolicyInvalid {
		t.Errorf("a grace beyond the bound: %v", err)
	}
}

// TestOPS12_LimitsOfATrustFileReachThePolicy: operators grant within the measured limits, and
// nothing without measured limits.
func TestOPS12_LimitsOfATrustFileReachThePolicy(t *testing.T) {
	now := time.Now()
	old := policy.TCB{Status: "OutOfDate", Advisories: []string{"INTEL-SA-01397"}}
	granted := []policy.TCBGrant{{ID: "e", Status: "OutOfDate", Advisories: old.Advisories, Until: now.Add(time.Hour), Reason: "r", By: "ann", At: now}}
	for days, want := range map[int]bool{0: false, 7: true} {
		trust, err := ParseTrust(trustFile(t, nil, func(f map[string]any) {
			if days > 0 {
				f["tcb"] = map[string]any{"operator_exceptions": map[string]any{"max_days": days, "statuses": []string{"OutOfDate"}, "advisories": []string{"INTEL-SA-*"}}}
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		p := trust.ImagePolicy().TCB
		p.Granted = granted
		if d := policy.AppraiseTCB(p, old, now); d.Allowed != want {
			t.Errorf("limits of %d days: %+v", days, d)
		}
	}
}
