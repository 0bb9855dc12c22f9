package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"cadre.dev/local/internal/cloud"
	"cadre.dev/platform"
	"cadre.dev/platform/phala"
	"cadre.dev/platform/platformtest"
)

// Fields that the real server drops or rejects are dropped or rejected here: a client that sends
// other fields must fail on this machine, not on an account.
func TestRequestsAreReadAsTheRealServerReadsThem(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	allot := r.must(200, "GET", "/kms/phala/next_app_id?counts=2", nil)["app_ids"].([]any)
	if len(allot) != 2 {
		t.Fatalf("two app ids: %v", allot)
	}
	first := allot[0].(obj)
	body := func(more obj) obj {
		out := obj{"name": "web-0", "compose_file": obj{"docker_compose_file": "services: {}"}}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	for _, c := range []struct {
		name  string
		more  obj
		code  int
		place string // of the refused field
	}{
		{"as clients send it", obj{"app_id": first["app_id"], "nonce": first["nonce"], "kms": "PHALA", "listed": false}, 200, ""},
		{"a nonce without app_id", obj{"nonce": first["nonce"]}, 422, "nonce"},
		{"a nonce under a name that is not app_id", obj{"custom_app_id": first["app_id"], "nonce": first["nonce"]}, 422, "nonce"},
		{"another nonce", obj{"app_id": first["app_id"], "nonce": 99}, 422, "app_id"},
		{"a nonce as text", obj{"app_id": first["app_id"], "nonce": "1"}, 422, "nonce"},
		{"a disk as text", obj{"disk_size": "20"}, 422, "disk_size"},
		{"a name that is none", obj{"name": 7}, 422, "name"},
		{"another key service", obj{"kms": "BASE"}, 422, "kms"},
		{"a short image name", obj{"image": "dstack-0.5.9"}, 400, ""},
		{"a full image name", obj{"image": ImageSlug("dstack-0.5.9")}, 200, ""},
		{"a key in other letters", obj{"Nonce": 99}, 200, ""},
		{"compose_file as text", obj{"compose_file": "services: {}"}, 422, "compose_file"},
		{"a list that is none", obj{"compose_file": obj{"docker_compose_file": "x", "allowed_envs": "A"}}, 422, "allowed_envs"},
	} {
		code, got := r.call("POST", "/cvms/provision", body(c.more))
		if code != c.code {
			t.Errorf("%s: %d %v, want %d", c.name, code, got, c.code)
			continue
		}
		if c.code != 422 {
			continue
		}
		detail, _ := got["detail"].([]any)
		if len(detail) != 1 {
			t.Errorf("%s: %v is not one problem", c.name, got)
			continue
		}
		problem := detail[0].(obj)
		loc := problem["loc"].([]any)
		if loc[0] != "body" || loc[len(loc)-1] != c.place || problem["type"] == "" || problem["msg"] == "" {
			t.Errorf("%s: %v, want it at %s", c.name, problem, c.place)
		}
	}
	// The server's default publishes.
	for listed, want := range map[any]bool{nil: true, false: false} {
		more := obj{"name": "shown-0"}
		if listed != nil {
			more = obj{"name": "hidden-0", "listed": listed}
		}
		p := r.must(200, "POST", "/cvms/provision", body(more))
		made := r.must(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
		if got := r.settled(made["vm_uuid"].(string)); got["listed"] != want {
			t.Errorf("listed %v shows as %v", listed, got["listed"])
		}
	}
}

func TestARepeatedCreateIsAnsweredWithTheCVMOfTheFirst(t *testing.T) {
	r := newRig(t, cloud.Settings{CreateHidden: cloud.Duration(50 * time.Millisecond)})
	p := r.must(200, "POST", "/cvms/provision", obj{"name": "web-0", "compose_file": obj{"docker_compose_file": "services: {}"}})
	commit := obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]}
	first := r.must(200, "POST", "/cvms", commit)
	if again := r.must(200, "POST", "/cvms", commit); again["vm_uuid"] != first["vm_uuid"] {
		t.Errorf("the same create again: %v, want %v", again, first)
	}
	r.settled(first["vm_uuid"].(string))
	next := r.must(200, "POST", "/cvms/web-0/compose_file/provision", obj{"name": "web-0", "docker_compose_file": "services: {a: {image: x}}"})
	if got := r.must(409, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": next["compose_hash"]}); got["error_code"] != "ERR-03-007" {
		t.Errorf("another hash: %v", got)
	}
	r.must(200, "PATCH", "/_local/settings", obj{"create_twice": true})
	if code, got := r.call("POST", "/cvms", commit); code != 400 {
		t.Errorf("a server of before, asked for the same name again: %d %v", code, got)
	}
}

// One PATCH of several things is one restart.
func TestOnePatchIsOneRestart(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {}")
	got := r.must(202, "PATCH", "/cvms/web-0", obj{"image": ImageSlug("dstack-0.5.9"), "vcpu": 2, "disk_size": 30, "shutdown_timeout": 60,
		"docker_compose_file": "services: {a: {image: x}}"})
	if got["correlation_id"] == nil || got["correlation_id"] == "" {
		t.Errorf("no correlation id: %v", got)
	}
	now := r.settled("web-0")
	res := now["resource"].(obj)
	if now["compose_hash"] == v["compose_hash"] || now["os"].(obj)["name"] != ImageSlug("dstack-0.5.9") || res["instance_type"] != "tdx.medium" || res["disk_in_gb"] != 30.0 {
		t.Errorf("after the patch: %v", now)
	}
	if boots := r.hv.Boots("web-0"); len(boots) != 2 {
		t.Errorf("%d boots, want the first and one more", len(boots))
	}
	for name, bad := range map[string]obj{
		"a timeout that is too long": {"shutdown_timeout": 1201}, "no such size": {"vcpu": 3}, "a smaller disk": {"disk_size": 20}, "a size as text": {"memory": "2048"},
	} {
		if code, got := r.call("PATCH", "/cvms/web-0", bad); code != 422 {
			t.Errorf("%s: %d %v", name, code, got)
		}
	}
	if got := r.must(202, "PATCH", "/cvms/web-0", obj{"shutdown_timeout": 60}); got["status"] != "no_change" {
		t.Errorf("the same again: %v", got)
	}
	if boots := r.hv.Boots("web-0"); len(boots) != 2 {
		t.Errorf("refusals booted it: %d", len(boots))
	}
}

// The driver asks for several things at once: one boot where the server has the call, and
// where it has not, the older call for the size alone. The decision is made once.
func TestTheDriverFallsBackOnceToTheOlderCalls(t *testing.T) {
	var log bytes.Buffer
	for older, boots := range map[bool]int{false: 2, true: 3} {
		r := newRig(t, cloud.Settings{NoPatch: older})
		driver, err := phala.New(phala.Config{BaseURL: r.host.URL + "/api/v1", APIKey: testKey, Log: slog.New(slog.NewTextHandler(&log, nil)), ShutdownTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		v := r.create("web-0", "services: {}")
		shape := platform.Shape{InstanceType: "tdx.large", DiskGB: 40, OSImage: "dstack-0.5.9"}
		got, err := driver.Resize(t.Context(), "web-0", shape)
		if err != nil || got.OSImage == older {
			t.Fatalf("older server %v: %+v, %v", older, got, err)
		}
		r.settled("web-0")
		if older {
			if _, err := driver.SetOSImage(t.Context(), "web-0", shape.OSImage); err != nil {
				t.Fatal(err)
			}
			r.settled("web-0")
		}
		now, err := driver.Describe(t.Context(), "web-0")
		if err != nil || now.InstanceType != shape.InstanceType || now.DiskGB != 40 || now.OSImage != ImageSlug("dstack-0.5.9") || now.ComposeHash != v["compose_hash"] {
			t.Errorf("older server %v: %+v, %v", older, now, err)
		}
		if n := len(r.hv.Boots("web-0")); n != boots {
			t.Errorf("older server %v: %d boots, want %d", older, n, boots)
		}
		patches := 0
		for _, call := range r.must(200, "GET", "/_local/calls", nil)["calls"].([]any) {
			if c := call.(obj); c["method"] == "PATCH" && c["status"] == 405.0 {
				patches++
			}
		}
		if older != (patches == 1) {
			t.Errorf("older server %v: %d calls were not known to it, want the first alone", older, patches)
		}
	}
	if n := strings.Count(log.String(), "no PATCH of a cvm"); n != 1 {
		t.Errorf("the decision was logged %d times:\n%s", n, log.String())
	}
}

// Each change leaves a record, from which the driver learns the effect of a call without answer.
func TestOperationsReportTheOutcomeOfACall(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {}")
	driver, err := phala.New(phala.Config{BaseURL: r.host.URL + "/api/v1", APIKey: testKey})
	if err != nil {
		t.Fatal(err)
	}
	r.inject(platformtest.Fault{Method: "POST", Path: "/restart", Mode: platformtest.ResetAfter})
	if _, err := driver.Restart(t.Context(), "web-0"); err == nil || errors.Is(err, platform.ErrRefused) {
		t.Fatalf("a restart without an answer: %v", err)
	}
	r.settled("web-0")
	tasks, err := driver.Tasks(t.Context(), "web-0", time.Minute)
	if err != nil || len(tasks) != 2 || tasks[0].Kind != "restart" || tasks[0].State != platform.TaskDone || tasks[0].Correlation == "" || tasks[0].ComposeHash != v["compose_hash"] || tasks[1].Kind != "create" {
		t.Fatalf("tasks: %+v, %v", tasks, err)
	}
	next := r.must(200, "POST", "/cvms/web-0/compose_file/provision", obj{"name": "web-0", "docker_compose_file": "services: {a: {image: refuse me}}"})
	got, err := driver.Update(t.Context(), platform.UpdateRequest{VMUUID: "web-0", ComposeHash: next["compose_hash"].(string)})
	if err != nil {
		t.Fatal(err)
	}
	r.settled("web-0")
	tasks, err = driver.Tasks(t.Context(), "web-0", time.Minute)
	if err != nil || tasks[0].Correlation != got.Correlation || tasks[0].State != platform.TaskFailed || !strings.Contains(tasks[0].Error, "not supported") || tasks[0].ComposeHash != next["compose_hash"] {
		t.Errorf("a boot that failed: %+v, %v", tasks, err)
	}
	first := r.must(200, "GET", "/cvms/web-0/operations?limit=2", nil)
	if items := first["items"].([]any); len(items) != 2 || first["total"] != 3.0 || first["next_cursor"] != "2" {
		t.Errorf("a page: %v", first)
	}
	r.must(422, "GET", "/cvms/web-0/operations?limit=501", nil)
	r.must(200, "PATCH", "/_local/settings", obj{"no_operations": true})
	if tasks, err := driver.Tasks(t.Context(), "web-0", time.Minute); err != nil || tasks != nil {
		t.Errorf("an older server: %+v, %v", tasks, err)
	}
}

// A client of 2025-10-28, as npm phala is where it updates a CVM, gets the object of that version.
func TestACVMInTheOldestForm(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {}")
	r.hdr.Set("X-Phala-Version", "2025-10-28")
	got := r.must(200, "GET", "/cvms/web-0", nil)
	if _, number := got["id"].(float64); !number || got["teepod_id"] != 1.0 || got["vcpu"] != 1.0 || got["memory"] != 2048.0 || got["vm_uuid"] != v["vm_uuid"] || got["gateway_domain"] != "gw.test" ||
		got["encrypted_env_pubkey"] != v["encrypted_env_pubkey"] || got["resource"] != nil {
		t.Errorf("web-0 of 2025-10-28: %v", got)
	}
}

func TestASuspendedWorkspaceChangesNothing(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	r.create("web-0", "services: {}")
	p := r.must(200, "POST", "/cvms/provision", obj{"name": "web-1", "compose_file": obj{"docker_compose_file": "services: {}"}})
	r.must(200, "PATCH", "/_local/settings", obj{"suspended": true})
	r.must(403, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
	r.must(403, "POST", "/cvms/web-0/restart", nil)
	r.must(403, "DELETE", "/cvms/web-0", nil)
	driver, err := phala.New(phala.Config{BaseURL: r.host.URL + "/api/v1", APIKey: testKey})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := driver.Restart(t.Context(), "web-0"); !errors.Is(err, platform.ErrSuspended) || !errors.Is(err, platform.ErrRefused) {
		t.Errorf("the driver reads %v, want ErrSuspended and ErrRefused", err)
	}
	if got := r.must(200, "GET", "/cvms/web-0", nil); got["status"] != "running" {
		t.Errorf("a suspended workspace is read: %v", got)
	}
}

// A client shows the text of an error, so an endpoint that is not served answers in JSON.
func TestUnservedEndpointsAnswerInJSON(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	for _, path := range []string{"/kms/on-chain/base", "/cvms/web-0/attestation", "/nothing"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.host.URL+"/api/v1"+path, bytes.NewReader(nil))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = r.hdr.Clone()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Detail string }
		err = json.NewDecoder(resp.Body).Decode(&got)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 404 || got.Detail == "" {
			t.Errorf("GET %s: %d, %+v, %v", path, resp.StatusCode, got, err)
		}
	}
}
