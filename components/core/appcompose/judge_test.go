package appcompose_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/appcompose/appcomposetest"
)

const text = "services:\n  app:\n    image: example.org/app@sha256:00\n"

func says(problems []appcompose.Problem) string {
	return "app-compose.json: " + appcompose.Texts(problems)
}

func TestRenderedDocumentIsAccepted(t *testing.T) {
	raw, err := appcompose.Render("demo-web", text, []string{"B", "CADRE_GATEWAY_DOMAIN", "A", "B"})
	if err != nil {
		t.Fatal(err)
	}
	got, problems := appcompose.Judge(raw, appcompose.Rules{})
	if len(problems) > 0 || got.Name != "demo-web" || got.Compose != text || !slices.Equal(got.Envs, []string{"A", "B", "CADRE_GATEWAY_DOMAIN"}) {
		t.Errorf("%+v, %s", got, says(problems))
	}
	var script bytes.Buffer
	enc := json.NewEncoder(&script)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(appcompose.InitScript); err != nil {
		t.Fatal(err)
	}
	want := `{"allowed_envs":["A","B","CADRE_GATEWAY_DOMAIN"],"docker_compose_file":"services:\n  app:\n    image: example.org/app@sha256:00\n",` +
		`"features":["kms","tproxy-net"],"gateway_enabled":true,"init_script":` + strings.TrimSpace(script.String()) + `,"kms_enabled":true,"local_key_provider_enabled":false,"manifest_version":2,"name":"demo-web",` +
		`"no_instance_id":false,"pre_launch_script":"# Cadre runs nothing here. A platform adds a script of its own where this text is missing.\ntrue\n","public_logs":false,"public_sysinfo":false,"public_tcbinfo":true,"runner":"docker-compose","secure_time":true,"storage_fs":"zfs","tproxy_enabled":true}`
	if string(raw) != want {
		t.Errorf("rendered\n%s\nwant\n%s", raw, want)
	}
	if _, err := appcompose.Render("demo-web", " \n", nil); err == nil {
		t.Error("an empty compose text was rendered")
	}
	if _, err := appcompose.Render("demo-web", strings.Repeat("x", appcompose.MaxSize), nil); err == nil {
		t.Error("a document beyond dstack's limit was rendered")
	}
}

func TestJudgeRefusesEachBadKeyValueAndName(t *testing.T) {
	cases, err := appcomposetest.Bad(appcomposetest.Good("demo-web", text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if _, problems := appcompose.Judge(c.Raw, appcompose.Rules{}); len(problems) == 0 || !strings.Contains(says(problems), c.Says) {
			t.Errorf("%s: %q, want it to say %q", c.Name, says(problems), c.Says)
		}
	}
	covered := map[string]bool{}
	for _, c := range cases {
		name, _, _ := strings.Cut(c.Name, "=")
		covered[name] = true
	}
	for _, k := range appcompose.Keys() {
		if !covered[k.Name] {
			t.Errorf("no bad value of key %s is tried", k.Name)
		}
		if k.Values == "" {
			t.Errorf("key %s does not say which values it may have", k.Name)
		}
	}
}

func TestJudgeAcceptsTheOtherGoodValues(t *testing.T) {
	script := "echo ready"
	sum := sha256.Sum256([]byte(script))
	rules := appcompose.Rules{Scripts: []string{hex.EncodeToString(sum[:])}, KeyProviderID: "3059"}
	for _, c := range []struct{ key, value string }{
		{"name", `""`}, {"allowed_envs", `[]`}, {"allowed_envs", `["POSTGRES_DB","TZ","CADRE_SLOT"]`}, {"features", `[]`}, {"features", `["tproxy-net"]`},
		{"key_provider", `"kms"`}, {"key_provider_id", `""`}, {"key_provider_id", `"3059"`}, {"public_sysinfo", `true`}, {"public_tcbinfo", `false`},
		{"storage_fs", `"ext4"`}, {"swap_size", `0`}, {"swap_size", `4294967296`}, {"pre_launch_script", `""`}, {"pre_launch_script", `"echo ready"`},
		{"bash_script", `""`}, {"public_logs", ` false `},
	} {
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(appcomposetest.Good("demo-web", text), &fields); err != nil {
			t.Fatal(err)
		}
		fields[c.key] = json.RawMessage(c.value)
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if _, problems := appcompose.Judge(raw, rules); len(problems) > 0 {
			t.Errorf("%s=%s: %s", c.key, c.value, says(problems))
		}
	}
	for _, gone := range []string{"name", "allowed_envs", "features", "local_key_provider_enabled", "gateway_enabled", "tproxy_enabled", "public_logs", "public_sysinfo", "public_tcbinfo", "no_instance_id", "storage_fs"} {
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(appcomposetest.Good("demo-web", text), &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, gone)
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if _, problems := appcompose.Judge(raw, rules); len(problems) > 0 {
			t.Errorf("without %s: %s", gone, says(problems))
		}
	}
}

func TestJudgeReportsEveryProblemAndBoundsThem(t *testing.T) {
	_, problems := appcompose.Judge([]byte(`{"runner":"bash","no_instance_id":true,"kms_enabled":false,"key_provider":"none","x":1}`), appcompose.Rules{})
	for _, want := range []string{"manifest_version", "runner", "docker_compose_file", "no_instance_id", "kms_enabled", "key_provider", "secure_time", "init_script is missing", "x is not on the list"} {
		if !strings.Contains(says(problems), want) {
			t.Errorf("%q does not name %s", says(problems), want)
		}
	}
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, `"k%d":0,`, i)
	}
	_, problems = appcompose.Judge([]byte("{"+many.String()+`"z":0}`), appcompose.Rules{})
	if len(problems) == 0 || len(problems) > 50 {
		t.Errorf("%d problems", len(problems))
	}
	for _, raw := range [][]byte{nil, make([]byte, appcompose.MaxSize+1)} {
		if _, problems := appcompose.Judge(raw, appcompose.Rules{}); len(problems) != 1 {
			t.Errorf("%d bytes: %s", len(raw), says(problems))
		}
	}
}

func TestEveryProgramsLocatorsMayBeSet(t *testing.T) {
	for _, name := range appcompose.CoordinatorNames() {
		if p := appcompose.EnvNameProblem(name); p != "" {
			t.Errorf("%s %s", name, p)
		}
	}
	for _, name := range appcompose.MemberLocators() {
		if !slices.Contains(appcompose.CoordinatorNames(), name) {
			t.Errorf("%s is not read by coordinators", name)
		}
	}
	for _, name := range []string{"PATHS", "MY_PROXY_URL", "ENVIRONMENT", "POSTGRES_PASSWORD_FILE", "LANG", "LC_ALL", "TZ", "PGDATA", "GOMAXPROCS", "COMPOSER"} {
		if appcompose.Steers(name) {
			t.Errorf("%s steers nothing", name)
		}
	}
}

func TestBeyondNamesUnrequestedVariables(t *testing.T) {
	if got := appcompose.Beyond([]string{"A", "CADRE_PATHS"}, appcompose.SplitNames(appcompose.JoinNames([]string{"B", "A"})), appcompose.MemberLocators()); got != "" {
		t.Errorf("beyond: %s", got)
	}
	if got := appcompose.Beyond([]string{"A", "C"}, []string{"A"}, nil); got != "C" {
		t.Errorf("beyond: %q", got)
	}
	if appcompose.SplitNames("") != nil || appcompose.JoinNames([]string{"B", "A", "B"}) != "A,B" {
		t.Error("names do not survive a record")
	}
}

func FuzzATT16_Judge(f *testing.F) {
	good := appcomposetest.Good("demo-web", text, "A")
	f.Add(good)
	cases, err := appcomposetest.Bad(good)
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		f.Add(c.Raw)
	}
	known := map[string]bool{}
	for _, k := range appcompose.Keys() {
		known[k.Name] = true
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, problems := appcompose.Judge(raw, appcompose.Rules{})
		if len(problems) > 0 {
			return
		}
		// An accepted document reads the same to a reader that is not strict.
		var loose map[string]any
		if err := json.Unmarshal(raw, &loose); err != nil {
			t.Fatalf("accepted, but no JSON: %v", err)
		}
		for name := range loose {
			if !known[name] {
				t.Errorf("key %q was accepted", name)
			}
		}
		if loose["secure_time"] != true || loose["kms_enabled"] != true || loose["runner"] != "docker-compose" || loose["docker_compose_file"] != got.Compose || got.Compose == "" {
			t.Errorf("accepted: %s", raw)
		}
		if s, ok := loose["pre_launch_script"]; ok && s != "" && s != appcompose.PreLaunchScript || loose["public_logs"] == true || loose["no_instance_id"] == true {
			t.Errorf("accepted: %s", raw)
		}
		for _, name := range got.Envs {
			if appcompose.EnvNameProblem(name) != "" {
				t.Errorf("env %q was accepted", name)
			}
		}
	})
}

// TestATT29_SecureTimeIsAChoiceOfTheTrustFile: without its word a document that has it off is refused; with it
// both are accepted, so that members move from one to the other.
func TestATT29_SecureTimeIsAChoiceOfTheTrustFile(t *testing.T) {
	off := appcompose.Rules{SecureTimeOff: true}
	for _, rendered := range []appcompose.Rules{{}, off} {
		raw, err := rendered.Render("demo-web", "services: {}", nil)
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(string(raw), `"secure_time":false`); has != rendered.SecureTimeOff {
			t.Errorf("off %t: rendered %s", rendered.SecureTimeOff, raw)
		}
		if _, problems := appcompose.Judge(raw, off); len(problems) > 0 {
			t.Errorf("off %t, judged by a trust file that has it off: %v", rendered.SecureTimeOff, problems)
		}
		if _, problems := appcompose.Judge(raw, appcompose.Rules{}); (len(problems) > 0) != rendered.SecureTimeOff {
			t.Errorf("off %t, judged by a trust file that says nothing: %v", rendered.SecureTimeOff, problems)
		}
		if _, problems := appcompose.Judge([]byte(strings.Replace(string(raw), `"secure_time":`, `"secure_time":null,"x":`, 1)), off); len(problems) < 2 {
			t.Errorf("null is taken: %v", problems)
		}
	}
}
