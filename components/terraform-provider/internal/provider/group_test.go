package provider_test

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"cadre.dev/coordinator/wholetest"
)

// A group is made, changed, imported and deleted by OpenTofu, with a real coordinator.
func TestGroupLivesAndDies(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	withTofu(t)
	startCluster(t, nil)
	const at = "cadre_group.web"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{
				Config: groupOf("one", 2, quick),
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckResourceAttr(at, "id", "web"),
					resource.TestCheckResourceAttr(at, "rollout_complete", "true"),
					resource.TestMatchResourceAttr(at, "revision", regexp.MustCompile(`^[0-9a-f]{32}$`)),
				),
			},
			{ResourceName: at, ImportState: true, ImportStateVerify: true, ImportStateId: "web", ImportStateVerifyIgnore: []string{"timeouts"}},
			{
				Config: groupOf("two", 2, quick),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(at, plancheck.ResourceActionUpdate),
				}},
				Check: resource.TestCheckResourceAttr(at, "rollout_complete", "true"),
			},
			{Config: groupOf("two", 2, quick), PlanOnly: true},
		},
	})
}
