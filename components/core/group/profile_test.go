package group

import (
	"encoding/json"
	"testing"

	"cadre.dev/core/appcompose"
)

// TestEveryPlatformHasADocument: each passes the one list, and only Phala Cloud's has the keys that
// its servers would add.
func TestEveryPlatformHasADocument(t *testing.T) {
	for _, platform := range append(Platforms(), "") {
		rules := appcompose.Rules{Platform: platform}
		raw, err := rules.Render("demo-pg", "services:\n  a:\n    image: x\n", []string{"A"})
		if err != nil {
			t.Fatalf("%q: %v", platform, err)
		}
		if _, problems := appcompose.Judge(raw, rules); len(problems) > 0 {
			t.Errorf("%q: %s", platform, appcompose.Texts(problems))
		}
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"pre_launch_script", "features", "tproxy_enabled"} {
			if _, has := fields[key]; has != (platform != PlatformVMM) {
				t.Errorf("%q: %s is there: %v", platform, key, has)
			}
		}
		for _, key := range []string{"kms_enabled", "gateway_enabled", "init_script"} {
			if fields[key] == nil || fields[key] == false {
				t.Errorf("%q: %s is %v", platform, key, fields[key])
			}
		}
	}
	if _, err := (appcompose.Rules{Platform: "aws"}).Render("a", "services: {}", nil); err == nil {
		t.Error("a document for an unknown platform")
	}
}
