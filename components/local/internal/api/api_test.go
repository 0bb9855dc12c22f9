package api

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/envelope"
)

func TestCVMIsFoundByEveryFormOfItsID(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {}")
	uuid := v["vm_uuid"].(string)
	for _, ref := range []string{v["id"].(string), uuid, strings.ReplaceAll(uuid, "-", ""), "web-0", "WEB-0", "1", v["app_id"].(string)} {
		if got := r.must(200, "GET", "/cvms/"+ref, nil); got["vm_uuid"] != uuid {
			t.Errorf("GET /cvms/%s found %v", ref, got["vm_uuid"])
		}
	}
	r.must(200, "POST", "/apps/"+app(v)+"/instances", obj{"name": "web-1", "compose_hash": v["compose_hash"]})
	r.settled("web-1")
	if got := r.must(400, "GET", "/cvms/"+v["app_id"].(string), nil); got["error_code"] != "ERR-03-002" {
		t.Errorf("ambiguous id: %v", got)
	}
	r.hdr.Set("X-Phala-Version", "2026-01-21")
	if got := r.must(200, "GET", "/cvms/web-0", nil); got["id"] != v["id"] {
		t.Errorf("id of a CVM in an old API version = %v, want %v", got["id"], v["id"])
	}
	if got := r.must(200, "POST", "/cvms/web-0/start", nil); got["id"] != 1.0 {
		t.Errorf("id in the answer to a power operation of an old API version = %v, want the integer", got["id"])
	}
	r.hdr.Set("X-Api-Key", "wrong")
	r.must(401, "GET", "/cvms/web-0", nil)
}

func TestNewCVMIsNotFoundAtOnceAndNamesAreUnique(t *testing.T) {
	r := newRig(t, cloud.Settings{CreateHidden: cloud.Duration(150 * time.Millisecond)})
	p := r.must(200, "POST", "/cvms/provision", obj{"name": "web-0", "compose_file": obj{"docker_compose_file": "services: {}"}})
	made := r.must(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
	if made["status"] != "pending" {
		t.Errorf("a create answers %v, want pending", made)
	}
	uuid := made["vm_uuid"].(string)
	r.must(404, "GET", "/cvms/"+uuid, nil)
	other := r.must(200, "POST", "/cvms/provision", obj{"name": "web-0", "compose_file": obj{"docker_compose_file": "services: {}"}})
	_, again := r.call("POST", "/cvms", obj{"app_id": other["app_id"], "compose_hash": other["compose_hash"]})
	if want := `CVM name "web-0" is already in use in this workspace`; again["detail"] != want {
		t.Errorf("duplicate name: %v, want detail %q", again, want)
	}
	v := r.settled(uuid)
	if id, _ := v["instance_id"].(string); v["status"] != "running" || len(id) != 40 {
		t.Errorf("after the boot: %v", v)
	}
	r.must(422, "POST", "/cvms/provision", obj{"name": "w", "compose_file": obj{"docker_compose_file": "services: {}"}})
	bad := r.must(400, "POST", "/cvms/provision", obj{"name": "web-9", "compose_file": obj{}})
	if bad["error_code"] != "ERR-01-003" {
		t.Errorf("empty compose: %v", bad)
	}
}

func TestUpdateIsAcceptedThenBusyThenDoneInPlace(t *testing.T) {
	r := newRig(t, cloud.Settings{BootDelay: cloud.Duration(100 * time.Millisecond)})
	v := r.create("web-0", "services: {a: 1}")
	path := "/cvms/" + v["vm_uuid"].(string)
	p := r.must(200, "POST", path+"/compose_file/provision", obj{"name": "app", "docker_compose_file": "services: {b: 1}"})
	if now := r.must(200, "GET", path, nil); now["compose_hash"] != v["compose_hash"] {
		t.Error("provision changed the CVM")
	}
	r.must(404, "PATCH", path+"/compose_file", obj{"compose_hash": strings.Repeat("0", 64)})
	got := r.must(202, "PATCH", path+"/compose_file", obj{"compose_hash": p["compose_hash"]})
	if got["status"] != "in_progress" || got["correlation_id"] == nil {
		t.Errorf("update answers %v", got)
	}
	if now := r.must(200, "GET", path, nil); now["status"] != "updating" || now["compose_hash"] != p["compose_hash"] {
		t.Errorf("while updating: %v %v", now["status"], now["compose_hash"])
	}
	busy := r.must(409, "POST", path+"/restart", obj{})
	if _, coded := busy["error_code"]; coded {
		t.Errorf("busy carries an error_code: %v", busy)
	}
	r.must(409, "DELETE", path, nil)
	after := r.settled(v["vm_uuid"].(string))
	for _, same := range []string{"vm_uuid", "instance_id", "id", "name", "app_id"} {
		if after[same] != v[same] {
			t.Errorf("update changed %s from %v to %v", same, v[same], after[same])
		}
	}
	if again := r.must(202, "PATCH", path+"/compose_file", obj{"compose_hash": p["compose_hash"]}); again["status"] != "no_change" {
		t.Errorf("the same compose again: %v", again)
	}
	boots := r.hv.Boots("web-0")
	if len(boots) != 2 || boots[1].Compose != "services: {b: 1}" || !bytes.Equal(boots[0].Seed, boots[1].Seed) {
		t.Errorf("boots = %+v", boots)
	}
	revs := r.must(200, "GET", "/apps/"+app(v)+"/revisions", nil)["items"].([]any)
	if len(revs) != 2 || revs[0].(obj)["compose_hash"] != p["compose_hash"] {
		t.Errorf("revisions, newest first: %v", revs)
	}
	old := revs[1].(obj)["revision_id"].(string)
	r.must(202, "POST", "/apps/"+app(v)+"/revisions/"+old+"/redeploy", obj{"vm_uuids": []any{v["vm_uuid"]}})
	if back := r.settled(v["vm_uuid"].(string)); back["compose_hash"] != v["compose_hash"] {
		t.Errorf("redeploy of the first revision left %v", back["compose_hash"])
	}
}

func TestAcceptedOperationMayNotShowAtOnce(t *testing.T) {
	r := newRig(t, cloud.Settings{AcceptLag: cloud.Duration(150 * time.Millisecond)})
	v := r.create("web-0", "services: {}")
	path := "/cvms/" + v["vm_uuid"].(string)
	r.must(200, "POST", path+"/restart", obj{})
	now := r.must(200, "GET", path, nil)
	if now["status"] != "running" || now["in_progress"] != false {
		t.Errorf("right after the 200: %v, want it to read as before", now)
	}
	r.must(409, "POST", path+"/stop", nil)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(r.hv.Boots("web-0")) < 2 {
		<-tick.C
	}
}

func TestEnvIsDecryptedFilteredAndReplaced(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {}", "B", "A")
	path := "/cvms/" + v["vm_uuid"].(string)
	key, err := hex.DecodeString(v["encrypted_env_pubkey"].(string))
	if err != nil {
		t.Fatal(err)
	}
	seal := func(vars ...envelope.Var) string {
		sealed, err := envelope.Encrypt(key, vars)
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	last := func() map[string]string {
		r.settled(v["vm_uuid"].(string))
		boots := r.hv.Boots("web-0")
		return boots[len(boots)-1].Env
	}
	got := r.must(202, "PATCH", path+"/envs", obj{"encrypted_env": seal(envelope.Var{Key: "A", Value: "1"}, envelope.Var{Key: "X", Value: "2"})})
	if env := last(); fmt.Sprint(env) != "map[A:1]" || got["allowed_envs_changed"] != false {
		t.Errorf("env = %v (%v), want only the allowed A", env, got)
	}
	if now := r.settled("web-0"); now["compose_hash"] != v["compose_hash"] {
		t.Error("other values changed the compose hash")
	}
	got = r.must(202, "PATCH", path+"/envs", obj{"encrypted_env": seal(envelope.Var{Key: "X", Value: "3"}), "env_keys": []string{"X"}})
	if env := last(); fmt.Sprint(env) != "map[X:3]" || got["allowed_envs_changed"] != true {
		t.Errorf("env = %v (%v), want only X", env, got)
	}
	if now := r.settled("web-0"); now["compose_hash"] == v["compose_hash"] {
		t.Error("other names left the compose hash")
	}
	r.must(202, "PATCH", path+"/envs", obj{"encrypted_env": "00"})
	broken := r.settled("web-0")
	if text := r.bootError(broken); broken["status"] != "stopped" || !strings.Contains(text, "encrypted env") {
		t.Errorf("unreadable env: %v %q", broken["status"], text)
	}
}

func TestBootErrorStopsTheCVM(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {} # refuse me")
	r.must(204, "DELETE", "/_local/calls", nil)
	if text := r.bootError(v); v["status"] != "stopped" || !strings.Contains(text, "privileged") {
		t.Errorf("status %v, boot error %q", v["status"], text)
	}
	if logged := r.must(200, "GET", "/_local/calls", nil)["calls"]; fmt.Sprint(logged) != "[]" {
		t.Errorf("a read is in the log of calls: %v", logged)
	}
}

// bootError is that of a CVM's row; "": it has none.
func (r *rig) bootError(row obj) string {
	r.Helper()
	uuid := row["vm_uuid"].(string)
	text, _ := r.must(200, "POST", "/status/batch", obj{"vm_uuids": []any{uuid}})[uuid].(obj)["boot_error"].(string)
	return text
}

func TestFaultsLoseAnswersAndTheLogProvesWhatHappened(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {}")
	path := "/cvms/" + v["vm_uuid"].(string)
	r.must(204, "DELETE", "/_local/calls", nil)
	for _, f := range []obj{
		{"match": "POST .*/restart$", "effect": "reset_before", "cvm": "web-0"},
		{"match": "POST .*/restart$", "effect": "timeout_after", "delay": "20ms"},
		{"match": "POST .*/restart$", "effect": "status", "status": 429, "headers": obj{"Retry-After": "0"}},
	} {
		r.must(201, "POST", "/_local/faults", f)
	}
	if _, _, err := r.try("POST", path+"/restart", obj{}); err == nil {
		t.Error("reset_before answered")
	}
	if n := len(r.hv.Boots("web-0")); n != 1 {
		t.Errorf("reset_before had an effect: %d boots", n)
	}
	if _, _, err := r.try("POST", path+"/restart", obj{}); err == nil {
		t.Error("timeout_after answered")
	}
	r.settled("web-0")
	if n := len(r.hv.Boots("web-0")); n != 2 {
		t.Errorf("timeout_after had no effect: %d boots", n)
	}
	r.must(429, "POST", path+"/restart", obj{})
	r.must(200, "POST", path+"/restart", obj{})
	r.settled("web-0")
	log := r.must(200, "GET", "/_local/calls?cvm=web-0", nil)
	if n := log["executed"].(obj)["web-0"].(obj)["POST restart"]; n != 2.0 {
		t.Errorf("executed = %v, want 2 restarts", log["executed"])
	}
	var seen []string
	for _, c := range log["calls"].([]any) {
		seen = append(seen, fmt.Sprintf("%v/%v/%v", c.(obj)["fault"], c.(obj)["status"], c.(obj)["executed"]))
	}
	if want := "reset_before/0/0 timeout_after/0/200 status/429/0 <nil>/200/200"; strings.Join(seen, " ") != want {
		t.Errorf("log = %v, want %s", seen, want)
	}
	r.must(400, "POST", "/_local/faults", obj{"match": "(", "effect": "status"})
	r.must(204, "DELETE", "/_local/faults", nil)
}

func TestLocalEndpointsAreNotForCVMs(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	srv := httptest.NewServer(New(Config{Cloud: r.cl, Key: testKey, Log: slog.New(slog.DiscardHandler)}).Public())
	defer srv.Close()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/_local/calls", nil)
	req.Header.Set("X-Api-Key", testKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("/_local from inside answers %d", resp.StatusCode)
	}
}

func TestStateSurvivesTheDaemon(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	on := r.create("web-0", "services: {}")
	off := r.create("web-1", "services: {}")
	r.must(200, "POST", "/cvms/web-1/shutdown", nil)
	r.settled("web-1")
	r.close()
	if info, err := os.Stat(filepath.Join(r.dir, "state.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state.json: %v %v", info, err)
	}
	r.open(cloud.Settings{})
	again := r.settled("web-0")
	if again["status"] != "running" || again["instance_id"] != on["instance_id"] || len(r.hv.Boots("web-0")) != 2 {
		t.Errorf("web-0 after the restart: %v", again)
	}
	if still := r.settled("web-1"); still["status"] != "stopped" || still["vm_uuid"] != off["vm_uuid"] {
		t.Errorf("web-1 after the restart: %v", still)
	}
	r.must(204, "DELETE", "/cvms/web-1", nil)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(r.hv.Erased()) == 0 {
		<-tick.C
	}
	r.must(404, "DELETE", "/cvms/"+off["vm_uuid"].(string), nil)
}

func TestUnplannedDeathShowsAsStoppedAndMayBeRevived(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	r.create("web-0", "services: {}")
	r.must(204, "POST", "/_local/cvms/web-0/kill", nil)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for r.settled("web-0")["status"] != "stopped" {
		<-tick.C
	}
	r.must(200, "PATCH", "/_local/settings", obj{"auto_restart": "20ms"})
	r.must(200, "POST", "/cvms/web-0/start", nil)
	r.settled("web-0")
	r.must(204, "POST", "/_local/cvms/web-0/kill", nil)
	for len(r.hv.Boots("web-0")) < 3 {
		<-tick.C
	}
	if v := r.settled("web-0"); v["status"] != "running" {
		t.Errorf("after the automatic restart: %v", v["status"])
	}
}
