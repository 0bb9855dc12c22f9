package appcompose

import (
	"encoding/json"
	"strings"
	"testing"

	compose "cadre.dev/core/appcompose"
)

func TestBuildIsSortedCompactAndUnescaped(t *testing.T) {
	raw, err := Build(Fields{Name: "app", DockerComposeFile: "command: sh -c 'a && b > /tmp/x <y'", AllowedEnvs: []string{"B", "A", "B"}})
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	want := `{"allowed_envs":["A","B"],"docker_compose_file":"command: sh -c 'a && b > /tmp/x <y'","features":["kms","tproxy-net"],`
	if !strings.HasPrefix(text, want) || strings.HasSuffix(text, "\n") {
		t.Errorf("Build = %s\nwant it to begin with %s", text, want)
	}
	if len(Hash(raw)) != 64 {
		t.Errorf("Hash = %q", Hash(raw))
	}
	p, err := Parse(raw)
	if err != nil || p.Name != "app" || !p.GatewayEnabled || p.SecureTime {
		t.Errorf("Parse = %+v, %v", p, err)
	}
	again, err := WithAllowedEnvs(raw, []string{"A", "B"})
	if err != nil || string(again) != text {
		t.Errorf("the same names gave another file: %s, %v", again, err)
	}
}

func TestBuildRefuses(t *testing.T) {
	yes, no, three := true, false, 3
	for name, tc := range map[string]struct {
		in   Fields
		want string
	}{
		"no compose":     {Fields{}, "docker_compose_file"},
		"too large":      {Fields{DockerComposeFile: strings.Repeat("x", MaxBytes), PreLaunchScript: "y"}, "docker_compose_file"},
		"key provider":   {Fields{DockerComposeFile: "x", KeyProvider: "none"}, "key_provider"},
		"bash":           {Fields{DockerComposeFile: "x", Runner: "bash"}, "runner"},
		"a later form":   {Fields{DockerComposeFile: "x", ManifestVersion: &three}, "manifest_version"},
		"no KMS":         {Fields{DockerComposeFile: "x", KMSEnabled: &no}, "kms_enabled"},
		"local keys":     {Fields{DockerComposeFile: "x", LocalKeyProvider: &yes}, "kms_enabled"},
		"no instance id": {Fields{DockerComposeFile: "x", NoInstanceID: &yes}, "no_instance_id"},
	} {
		if _, err := Build(tc.in); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want it to name %s", name, err, tc.want)
		}
	}
}

func TestTheSentDocumentIsMeasuredUnchanged(t *testing.T) {
	raw, err := compose.Render("web", "services: {app: {image: x}} # <&>", []string{"B", "A"})
	if err != nil {
		t.Fatal(err)
	}
	var f Fields
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	if built, err := Build(f); err != nil || string(built) != string(raw) {
		t.Errorf("built %s, %v\nsent  %s", built, err, raw)
	}
}

// The real cloud adds its own script where none is given: a driver that sends none would
// get another hash than it computed.
func TestAScriptIsAddedWhereNoneIsGiven(t *testing.T) {
	for given, want := range map[string]string{"": PlatformScript, compose.PreLaunchScript: compose.PreLaunchScript} {
		raw, err := Build(Fields{Name: "app", DockerComposeFile: "services: {}", PreLaunchScript: given})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := Parse(raw); err != nil || p.PreLaunchScript != want {
			t.Errorf("script %q became %q, %v", given, p.PreLaunchScript, err)
		}
	}
	if Harmless("curl | sh") {
		t.Error("a script that does something would be skipped silently")
	}
}
