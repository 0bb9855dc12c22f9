package attest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	trust, err := LoadTrust(path)
	if err != nil {
		t.Fatal(err)
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
	if _, err := LoadTrust(path + ".missing"); err == nil {
		t.Error("a missing file was loaded")
	}
}

func TestATT21_TrustFilesThatPinNobodyAreRefused(t *testing.T) {
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
		{"key provider none", set("key_provider", map[string]any{"name": "none", "id": ""}), "pins nobody"},
		{"key provider without id", set("key_provider", map[string]any{"name": "kms", "id": ""}), "key_provider.id"},
		{"upper-case id", set("key_provider", map[string]any{"name": "kms", "id": strings.Repeat("AB", 32)}), "lower-case"},
		{"unknown provider", set("key_provider", map[string]any{"name": "mine", "id": strings.Repeat("30", 91)}), "not one of"},
		{"no images", drop("images"), "images is empty"},
		{"image without measurements", set("images", map[string]any{"x": []any{}}), "no measurements"},
		{"image without name", set("images", map[string]any{"": []any{}}), "without a name"},
		{"image without MRTD", image(func(m map[string]any) { delete(m, "mrtd") }), "mrtd"},
		{"image with a short RTMR", image(func(m map[string]any) { m["rtmr2"] = "00" }), "rtmr2"},
		{"image with an unknown register", image(func(m map[string]any) { m["rtmr3"] = "00" }), "unknown key"},
		{"cluster is no label", set("cluster", "My.Cluster"), "cluster"},
		{"no cluster", drop("cluster"), "cluster"},
		{"app id with 0x", set("coordinator_app_id", "0x"+strings.Repeat("01", 20)), "coordinator_app_id"},
		{"root is no PEM", set("roots_pem", "hello"), "roots_pem"},
		{"root is Intel's", set("roots_pem", string(intelRootPEM)), "Intel's"},
		{"simulated without a root", set("roots_pem", ""), "set both or neither"},
		{"a root without simulated", set("allow_simulated", false), "set both or neither"},
		{"operator hash", set("operator_token_sha256", "secret"), "operator_token_sha256"},
		{"script hash", set("pre_launch_scripts_sha256", []any{"x"}), "pre_launch_scripts_sha256"},
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
