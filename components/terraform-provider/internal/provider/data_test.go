package provider_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"cadre.dev/coordinator/wholetest"
	"cadre.dev/core/appcompose"
)

// The outputs of data sources and functions for a real group, and the blocks that they render.
func TestDataSourcesAndFunctions(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	withTofu(t)
	startCluster(t, nil)
	compose, _ := json.Marshal(composeOf("one"))
	loose, _ := json.Marshal(composeOf("one") + "    privileged: true\n")
	rendered, err := appcompose.Render("demo-web", composeOf("one"), []string{"A"})
	if err != nil {
		t.Fatal(err)
	}
	document, _ := json.Marshal(string(rendered))
	config := groupOf("one", 2, quick+`
  lifecycle_hook_json = [data.cadre_lifecycle_hook.late.json]
  lifecycle_hook {
    name       = "early"
    transition = "POST_LAUNCH"
    driver {
      do = "drain"
    }
  }
`) + `
data "cadre_lifecycle_hook" "late" {
  name       = "late"
  transition = "PRE_TERMINATE"
  http {
    port = 8080
    path = "/drain"
  }
}

data "cadre_plan" "web" {
  group = cadre_group.web.id
}

data "cadre_rollout" "web" {
  group = cadre_group.web.id
}

data "cadre_instances" "web" {
  group = cadre_group.web.id
}

data "cadre_compose" "sound" {
  cluster   = "demo"
  group     = "web"
  compose   = ` + string(compose) + `
  env_names = ["A"]
}

data "cadre_compose" "loose" {
  compose = ` + string(loose) + `
}

output "hash" {
  value = provider::cadre::compose_hash(` + string(document) + `)
}

output "pinned" {
  value = provider::cadre::pin(` + string(compose) + `) == ` + string(compose) + `
}
`
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{
				Config: config,
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckResourceAttr("cadre_group.web", "lifecycle_hook.#", "1"),
					resource.TestCheckResourceAttrPair("data.cadre_rollout.web", "target_revision", "cadre_group.web", "revision"),
					resource.TestCheckResourceAttr("data.cadre_rollout.web", "complete", "true"),
					resource.TestCheckResourceAttr("data.cadre_rollout.web", "state", "COMPLETE"),
					resource.TestCheckResourceAttr("data.cadre_plan.web", "actions.#", "0"),
					resource.TestCheckResourceAttr("data.cadre_instances.web", "instances.#", "2"),
					resource.TestCheckResourceAttr("data.cadre_instances.web", "instances.1.slot", "web-1"),
					resource.TestCheckResourceAttr("data.cadre_instances.web", "instances.1.state", "Available"),
					resource.TestCheckResourceAttr("data.cadre_compose.sound", "valid", "true"),
					resource.TestCheckResourceAttr("data.cadre_compose.sound", "hash", appcompose.Hash(rendered)),
					resource.TestCheckResourceAttr("data.cadre_compose.loose", "valid", "false"),
					resource.TestMatchResourceAttr("data.cadre_compose.loose", "findings.1.message", regexp.MustCompile("privileged")),
					resource.TestCheckNoResourceAttr("data.cadre_compose.loose", "hash"),
					resource.TestCheckOutput("hash", appcompose.Hash(rendered)),
					resource.TestCheckOutput("pinned", "true"),
				),
			},
			{Config: config, PlanOnly: true},
			{
				Config:      config + "\ndata \"cadre_health_check\" \"bad\" {\n  name = \"bad\"\n  tcp {\n    port = 0\n  }\n}\n",
				ExpectError: regexp.MustCompile(`health_check\["bad"\]\.tcp\.port`),
			},
			{
				Config:      config + "\noutput \"bad\" {\n  value = provider::cadre::compose_hash(\"services: {}\")\n}\n",
				ExpectError: regexp.MustCompile(`(?s)data\s+source\s+cadre_compose`),
			},
			{Config: config},
		},
	})
}
