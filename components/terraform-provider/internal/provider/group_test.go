package provider_test

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"cadre.dev/client/clienttest"
	"cadre.dev/coordinator/wholetest"
	"cadre.dev/core/group"
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

// An empty healing block turns healing on. A block that another client added shows in the plan
// before it is removed, and an import has it.
func TestAnEmptyHealingBlockIsSeen(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, arrived)
	f := newFolder(t, program).of(file)
	f.write("main.tf", groupOf("one", 2, quick))
	f.must("apply", "-auto-approve")
	s.Set("web", func(g *clienttest.Group) {
		g.Spec.AutoHealing = &group.AutoHealing{}
		g.Index++
		g.Status.ObservedIndex = g.Index
	})
	wants(t, "a plan beside it", f.must("plan"), "- auto_healing_policies")
	other := newFolder(t, program).of(file)
	other.write("main.tf", groupOf("one", 2, quick+"  auto_healing_policies {}\n"))
	other.must("import", "cadre_group.web", "web")
	wants(t, "what was imported", other.must("state", "show", "cadre_group.web"), "auto_healing_policies {")
	wants(t, "a plan of the same", other.must("plan"), "No changes")
}
