package api

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"cadre.dev/attest/dstacksdk"
	"cadre.dev/core/appcompose"
	"cadre.dev/local/internal/cloud"
)

// An app that another client made takes the document of a group in two plain calls for each
// CVM, as docs/guides/from-phala-app.md has them: on its disk, under its identity, with its env. Only
// then does the closed list accept it.
func TestAnAppOfAnotherClientTakesTheDocumentOfAGroup(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	sealed := func(p obj) string {
		key, err := hex.DecodeString(p["app_env_encrypt_pubkey"].(string))
		if err != nil {
			t.Fatal(err)
		}
		text, err := dstacksdk.SealEnv(key, map[string]string{"TOKEN": "value"})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	judge := func(cvm string) []appcompose.Problem {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.host.URL+"/api/v1/cvms/"+cvm+"/compose_file", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = r.hdr.Clone()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var text json.RawMessage
		if err := json.NewDecoder(resp.Body).Decode(&text); err != nil {
			t.Fatal(err)
		}
		_, problems := appcompose.Judge(text, appcompose.Rules{})
		return problems
	}
	// As phala_app and npm phala make it: no init_script, the platform's own pre-launch script.
	made := r.must(200, "POST", "/cvms/provision", obj{"name": "shop-web-0", "instance_type": "tdx.small", "compose_file": obj{
		"docker_compose_file": "services: {web: {image: x}}", "allowed_envs": []string{"TOKEN"}, "public_logs": true}})
	first := r.must(200, "POST", "/cvms", obj{"app_id": made["app_id"], "compose_hash": made["compose_hash"], "encrypted_env": sealed(made)})
	r.settled("shop-web-0")
	r.must(200, "POST", "/apps/"+made["app_id"].(string)+"/instances", obj{"name": "shop-web-1", "encrypted_env": sealed(made)})
	r.settled("shop-web-1")
	problems := appcompose.Texts(judge("shop-web-0"))
	for _, key := range []string{"init_script", "pre_launch_script", "public_logs"} {
		if !strings.Contains(problems, key) {
			t.Errorf("the document of another client is not refused for its %s: %s", key, problems)
		}
	}
	// The output of cadre admission app-compose, sent unchanged.
	document, err := appcompose.Render("web", "services: {web: {image: x}, cadre: {image: agent}}", []string{"TOKEN"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop-web-0", "shop-web-1"} {
		before := r.settled(name)
		next := r.must(200, "POST", "/cvms/"+name+"/compose_file/provision", json.RawMessage(document))
		if next["compose_hash"] != appcompose.Hash(document) {
			t.Errorf("%s would measure %v, not the document that was sent", name, next["compose_hash"])
		}
		r.must(202, "PATCH", "/cvms/"+name+"/compose_file", obj{"compose_hash": next["compose_hash"]})
		after := r.settled(name)
		if after["vm_uuid"] != before["vm_uuid"] || after["instance_id"] != before["instance_id"] || after["compose_hash"] != appcompose.Hash(document) || after["status"] != "running" {
			t.Errorf("%s after its new document: %v", name, after)
		}
		if left := judge(name); left != nil {
			t.Errorf("%s is refused with the document of a group: %s", name, appcompose.Texts(left))
		}
		boots := r.hv.Boots(name)
		if len(boots) != 2 || boots[1].Env["TOKEN"] != "value" {
			t.Errorf("%s: %d boots, the last one with env %v", name, len(boots), boots[len(boots)-1].Env)
		}
		// Other values of the same names are no other document.
		r.must(202, "PATCH", "/cvms/"+name+"/envs", obj{"encrypted_env": sealed(made), "env_keys": []string{"TOKEN"}})
		if now := r.settled(name); now["compose_hash"] != appcompose.Hash(document) {
			t.Errorf("%s with new values of env: %v", name, now)
		}
	}
	if got := r.must(200, "GET", "/cvms/shop-web-0", nil); got["vm_uuid"] != first["vm_uuid"] {
		t.Errorf("another CVM: %v", got)
	}
}
