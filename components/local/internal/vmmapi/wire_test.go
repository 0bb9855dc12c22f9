package vmmapi

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/cloud/cloudtest"
)

var cloudtestKey = cloudtest.EnvKey

func TestRequestsThatTheRealServerRefuses(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	for name, c := range map[string]struct{ method, body, want string }{
		"a method of a service": {"Vmm.Version", `{}`, "Service not found: Vmm.Version"},
		"unknown method":        {"Nothing", `{}`, "Service not found"},
		"no JSON":               {"GetInfo", `{`, ""},
		"an array":              {"GetInfo", `[]`, ""},
		"a number as text":      {"CreateVm", `{"name": 5}`, ""},
		"a negative number":     {"CreateVm", `{"vcpu": -1}`, ""},
		"a fraction":            {"CreateVm", `{"memory": 1.5}`, ""},
		"a size beyond 32 bit":  {"CreateVm", `{"disk_size": 4294967296}`, ""},
		"null":                  {"CreateVm", `{"name": null}`, "null"},
		"env that is no hex":    {"CreateVm", `{"encrypted_env": "zz"}`, "hex"},
		"a name with a slash":   {"CreateVm", `{"name": "a/b"}`, "Invalid name: a/b"},
		"an image with dots":    {"CreateVm", `{"name": "a", "image": "../x"}`, "Invalid image name"},
		"a port":                {"CreateVm", `{"ports": [{"protocol": "tcp"}]}`, "Port mapping is disabled"},
		"a GPU":                 {"CreateVm", `{"gpus": {"attach_mode": "listed", "gpus": [{"slot": "1"}]}}`, "GPU is not enabled"},
		"an attach mode":        {"CreateVm", `{"gpus": {"attach_mode": "some"}}`, "Invalid GPU attach mode: some"},
		"no document":           {"CreateVm", `{"name": "a", "image": "dstack-0.5.7"}`, "Failed to read compose file"},
		"a document without a name": {"CreateVm", `{"name": "a", "image": "dstack-0.5.7", "compose_file": "{\"manifest_version\": 2, \"runner\": \"x\"}"}`,
			"missing field `name`"},
		"a manifest of 0.6": {"GetComposeHash", `{"compose_file": "{\"manifest_version\": \"3\", \"name\": \"a\", \"runner\": \"x\"}"}`, "manifest_version"},
		"an app id":         {"GetAppEnvEncryptPubKey", `{"app_id": "x"}`, "hex"},
		"an absent VM":      {"StartVm", `{"id": "x"}`, "Failed to start VM"},
		"a stop of nothing": {"StopVm", `{"id": "x"}`, "Failed to stop VM"},
		"an absent update":  {"UpdateVm", `{"id": "x", "compose_file": "{\"manifest_version\": 2, \"name\": \"a\", \"runner\": \"x\"}"}`, "The instance x not found"},
		"another update":    {"UpdateVm", `{"id": "x"}`, "Failed to read manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.T = t
			r.refused(c.want, "host-a", c.method, c.body)
		})
	}
	if list := r.must("host-a", "Status", obj{}); list["total"] != 0.0 {
		t.Errorf("refused calls left %v", list)
	}
	code, text, err := r.send(t.Context(), http.MethodPost, r.hosts["host-a"].URL+"/prpc/Version", "", "")
	if err != nil || code != 400 || !strings.Contains(text, "json") {
		t.Errorf("a call in protobuf = %d %s, %v", code, text, err)
	}
	code, _, err = r.try(t.Context(), "host-a", "CreateVm", `{"name": "`+strings.Repeat("a", maxBody)+`"}`)
	if err == nil && code != 400 {
		t.Errorf("a body beyond the limit = %d", code)
	}
}

func TestAnswersHaveTheShapesOfTheRealServer(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	id := r.running("host-a", obj{"kms_urls": []string{"https://kms"}, "networking": obj{"mode": "bridge"}, "unknown": 1})
	v := r.info("host-a", id)
	for _, key := range []string{"id", "name", "status", "uptime", "app_url", "app_id", "instance_id", "configuration", "exited_at", "boot_progress", "boot_error", "shutdown_progress", "image_version", "events"} {
		if _, ok := v[key]; !ok {
			t.Errorf("a VM lacks %s: %v", key, v)
		}
	}
	if net, _ := r.config("host-a", id)["networking"].(obj); net["mode"] != "bridge" {
		t.Errorf("configuration: %v", r.config("host-a", id))
	}
	if events, _ := json.Marshal(v["events"]); !strings.Contains(string(events), `"body":"done","event":"boot.progress"`) {
		t.Errorf("events: %s", events)
	}
	if got := r.must("host-a", "Teepod.Version", "{}"); got["version"] != "0.5.11" {
		t.Errorf("version: %v", got)
	}
	for method, key := range map[string]string{"GetMeta": "kms", "ListImages": "images", "ListGpus": "gpus", "ReloadVms": "updated"} {
		if got := r.must("host-a", method, ""); got[key] == nil {
			t.Errorf("%s: %v", method, got)
		}
	}
	hash := r.must("host-a", "GetComposeHash", config("a"))["hash"]
	if app := r.info("host-a", id)["app_id"]; hash.(string)[:40] != app {
		t.Errorf("hash %v, app %v", hash, app)
	}
	key := r.must("host-a", "GetAppEnvEncryptPubKey", obj{"app_id": strings.Repeat("ab", 20)})
	if len(key["public_key"].(string)) != 64 || key["timestamp"] == nil {
		t.Errorf("env key: %v", key)
	}
	if code, text, err := r.try(t.Context(), "host-a", "StopVm", obj{"id": id}); err != nil || code != 200 || text != "null" {
		t.Errorf("an empty answer = %d %s, %v", code, text, err)
	}
	set := r.cl.Settings()
	set.VMMVersion = "0.6.0"
	r.cl.SetSettings(set)
	next := r.create("host-a", obj{"networks": []obj{{"mode": "bridge", "bridge_name": "br0"}, {"mode": "user"}}})
	if n := r.info("host-a", next); len(n["interfaces"].([]any)) != 2 || r.must("host-a", "GetMeta", "")["networking"] == nil {
		t.Errorf("a VM of 0.6: %v", n)
	}
	r.refused("unsupported networking mode", "host-a", "CreateVm", obj{"name": "a", "networks": []obj{{"mode": "custom"}}})
}

func TestATokenGuardsEveryCall(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	r.close()
	r.open(cloud.Settings{}, "secret")
	base := r.hosts["host-a"].URL
	for _, path := range []string{"/prpc/Version?json", "/prpc/CreateVm?json", "/logs?id=x", "/guest/Shutdown?json"} {
		for _, token := range []string{"", "other", "secre"} {
			method := http.MethodPost
			if strings.HasPrefix(path, "/logs") {
				method = http.MethodGet
			}
			if code, _, err := r.send(t.Context(), method, base+path, "{}", token); err != nil || code != 401 {
				t.Errorf("%s with token %q = %d, %v", path, token, code, err)
			}
		}
	}
	r.must("host-a", "Version", "")
	for _, set := range []func(*http.Request){
		func(q *http.Request) { q.Header.Set("X-Admin-Token", "secret") },
		func(q *http.Request) { q.SetBasicAuth("anyone", "secret") },
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/prpc/Version?json", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		set(req)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("another form of the token = %d", resp.StatusCode)
		}
	}
}

func TestLogsAndTheGuestsCalls(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	id := r.running("host-a", nil)
	if err := os.MkdirAll(filepath.Join(r.dir, id), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, id, "cvm.log"), []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"id=" + id + "&follow=false&ansi=false&lines=2&ch=serial": "two\nthree",
		"id=" + id + "&ch=other":                                  "Unknown channel other",
		"id=../" + id + "&lines=1":                                "",
	} {
		code, text, err := r.send(t.Context(), http.MethodGet, r.hosts["host-a"].URL+"/logs?"+query, "", "")
		if err != nil || code != 200 || text != want {
			t.Errorf("logs %s = %d %q, %v", query, code, text, err)
		}
	}
	body := `{"id":"` + id + `"}`
	if code, text, err := r.send(t.Context(), http.MethodPost, r.hosts["host-a"].URL+"/guest/ListContainers?json", body, ""); err != nil || code != 200 || text != `{"containers":[]}` {
		t.Errorf("containers = %d %s, %v", code, text, err)
	}
	if code, _, err := r.send(t.Context(), http.MethodPost, r.hosts["host-a"].URL+"/guest/Shutdown?json", body, ""); err != nil || code != 200 {
		t.Errorf("a shutdown by the guest's call = %d, %v", code, err)
	}
	r.awaitStatus("host-a", id, "stopped")
}

func TestTimesAreTextsOfWholeSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 900 * time.Millisecond: "0s", 61 * time.Second: "1m 1s", 2*time.Hour + 3*time.Second: "2h 3s", 49 * time.Hour: "2days 1h", 24 * time.Hour: "1day",
	} {
		if got := elapsed(time.Now().Add(-d)); got != want {
			t.Errorf("elapsed %s = %q, want %q", d, got, want)
		}
	}
}
