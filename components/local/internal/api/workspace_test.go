package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"cadre.dev/local/internal/cloud"
)

// has fails unless the object has every field, null or not.
func has(t *testing.T, what string, v any, fields string) obj {
	t.Helper()
	o, _ := v.(obj)
	for _, f := range strings.Fields(fields) {
		if _, ok := o[f]; !ok {
			t.Errorf("%s has no %s: %v", what, f, v)
		}
	}
	return o
}

// TestShapesOfTheSDK: the fields that the official SDK's schemas require.
func TestShapesOfTheSDK(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {}")
	const workspace = "id name slug tier role"
	me := has(t, "me", r.must(200, "GET", "/auth/me", nil), "user workspace credits")
	has(t, "me.user", me["user"], "username email role avatar email_verified totp_enabled has_backup_codes flag_has_password")
	has(t, "me.credits", me["credits"], "balance granted_balance is_post_paid")
	slug := has(t, "me.workspace", me["workspace"], workspace)["slug"].(string)

	list := has(t, "workspaces", r.must(200, "GET", "/workspaces", nil), "data pagination")
	has(t, "pagination", list["pagination"], "has_more next_cursor total")
	for _, w := range append(list["data"].([]any), r.must(200, "GET", "/workspaces/"+slug, nil)) {
		if got := has(t, "workspace", w, workspace+" is_default created_at billing_status"); got["slug"] != slug {
			t.Errorf("workspace = %v", got)
		}
	}
	r.must(404, "GET", "/workspaces/other", nil)

	one := has(t, "app", r.must(200, "GET", "/apps/"+app(v), nil), "id name app_id app_provision_type app_icon_url created_at kms_type current_cvm cvms cvm_count")
	if cvms := one["cvms"].([]any); len(cvms) != 1 || one["current_cvm"].(obj)["name"] != "web-0" {
		t.Errorf("app = %v", one)
	}
	for _, row := range []any{v, one["cvms"].([]any)[0], r.must(200, "GET", "/cvms/paginated", nil)["items"].([]any)[0]} {
		o := has(t, "cvm", row, "resource node_info os gateway workspace creator")
		if domain := o["gateway"].(obj)["base_domain"]; domain != "gw.test" {
			t.Errorf("base domain = %v", domain)
		}
		has(t, "cvm.workspace", o["workspace"], "object_type id name")
	}
	options := r.must(200, "GET", "/apps/filter-options", nil)
	for field, want := range map[string]string{
		"image_versions": `["dstack-0.5.7"]`, "instance_types": `["tdx.small"]`, "nodes": `["local-1"]`, "statuses": `["running"]`,
		"regions": `["local"]`, "kms_slugs": `["phala"]`, "kms_types": `["phala"]`,
	} {
		if got, _ := json.Marshal(options[field]); string(got) != want {
			t.Errorf("filter options: %s = %s, want %s", field, got, want)
		}
	}
	families := r.must(200, "GET", "/instance-types", nil)["result"].([]any)
	group := has(t, "family", families[0], "name items total")
	same := has(t, "family", r.must(200, "GET", "/instance-types/"+group["name"].(string), nil), "items total family")
	for _, size := range append(group["items"].([]any), same["items"].([]any)...) {
		has(t, "instance type", size, "id name description vcpu memory_mb hourly_rate requires_gpu family")
	}
	r.must(404, "GET", "/instance-types/gpu", nil)
	node := r.must(200, "GET", "/teepods/available", nil)["nodes"].([]any)[0].(obj)
	if version := node["images"].([]any)[0].(obj)["version"].([]any); len(version) != 3 || version[1] != 5.0 {
		t.Errorf("version of an image = %v", version)
	}
	rev := r.must(200, "GET", "/apps/"+app(v)+"/revisions", nil)["revisions"].([]any)[0].(obj)["revision_id"].(string)
	has(t, "revision", r.must(200, "GET", "/apps/"+app(v)+"/revisions/"+rev, nil), "compose_file encrypted_env user_config")
}

func TestFilterOptionsOfNothingAreEmptyLists(t *testing.T) {
	for field, v := range newRig(t, cloud.Settings{}).must(200, "GET", "/apps/filter-options", nil) {
		if list, ok := v.([]any); !ok || len(list) > 0 {
			t.Errorf("%s = %v", field, v)
		}
	}
}

func TestRedeployOfOneCVM(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {a: 1}")
	r.must(200, "POST", "/apps/"+app(v)+"/instances", obj{"name": "web-1", "compose_hash": v["compose_hash"]})
	r.settled("web-1")
	p := r.must(200, "POST", "/cvms/web-0/compose_file/provision", obj{"name": "app", "docker_compose_file": "services: {b: 1}"})
	for _, name := range []string{"web-0", "web-1"} {
		r.must(202, "PATCH", "/cvms/"+name+"/compose_file", obj{"compose_hash": p["compose_hash"]})
		r.settled(name)
	}
	revisions := r.must(200, "GET", "/apps/"+app(v)+"/revisions", nil)["revisions"].([]any)
	slices.Reverse(revisions)
	first := revisions[0].(obj)["revision_id"].(string)
	r.must(202, "POST", "/cvms/web-1/revisions/"+first+"/redeploy", nil)
	if got := r.settled("web-1"); got["compose_hash"] != v["compose_hash"] {
		t.Errorf("web-1 runs %v, want %v", got["compose_hash"], v["compose_hash"])
	}
	if got := r.settled("web-0"); got["compose_hash"] != p["compose_hash"] {
		t.Errorf("web-0 was moved too: %v", got["compose_hash"])
	}
	r.must(404, "POST", "/cvms/web-1/revisions/none/redeploy", nil)
	r.must(404, "POST", "/cvms/none/revisions/"+first+"/redeploy", nil)
}

// TestSizesThatAreNotOfferedAreRefused and not passed over.
func TestSizesThatAreNotOfferedAreRefused(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	r.create("web-0", "services: {}")
	r.must(422, "PATCH", "/cvms/web-0/resources", obj{"vcpu": 7})
	r.must(422, "PATCH", "/cvms/web-0/resources", obj{"instance_type": "tdx.medium", "memory": 1})
	r.must(202, "PATCH", "/cvms/web-0/resources", obj{"instance_type": "tdx.medium", "vcpu": 2, "memory": 4096, "allow_restart": true})
	if got := r.settled("web-0"); got["resource"].(obj)["instance_type"] != "tdx.medium" {
		t.Errorf("resource = %v", got["resource"])
	}
}

func TestANameInOtherLettersIsTaken(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {}")
	r.must(200, "POST", "/apps/"+app(v)+"/instances", obj{"name": "web-1", "compose_hash": v["compose_hash"]})
	r.settled("web-1")
	r.must(400, "PATCH", "/cvms/web-1/name", obj{"name": "WEB-0"})
	r.must(204, "PATCH", "/cvms/web-1/name", obj{"name": "WEB-1"})
}
