package provider_test

import (
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/core/deployment"
	"cadre.dev/core/group"
)

// A group of a deployment has its spec in the document: a plan that would write a part of the spec elsewhere is refused, with
// the way out, and the way out works.
func TestAGroupOfADeploymentHasOnePlace(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	cl := byHand(t, s)
	f := newFolder(t, program).of(file)
	slot := func(body string) string {
		return "\nresource \"cadre_instance\" \"one\" {\n  group   = \"web\"\n  ordinal = 1\n" + body + "}\n"
	}
	refused := func(what string, says ...string) {
		t.Helper()
		for _, command := range []string{"plan", "apply"} {
			args := []string{command}
			if command == "apply" {
				args = append(args, "-auto-approve")
			}
			out, ok := f.run(args...)
			if wants(t, what, out, says...); ok {
				t.Errorf("%s: %s succeeded", what, command)
			}
		}
	}
	present := func() deployment.Document {
		t.Helper()
		d, err := cl.Deployment(t.Context(), "shop", 0)
		if err != nil || len(d.Drifted) > 0 {
			t.Errorf("the groups have another spec than the document: %v, %v", d.Drifted, err)
		}
		return d.Document
	}

	// A group and a slot of no deployment, which a deployment then takes over as they are.
	f.write("main.tf", groupOf("one", 2, quick)+slot("  metadata = { tier = \"canary\" }\n  depends_on = [cadre_group.web]\n"))
	f.must("apply", "-auto-approve")
	g, err := cl.Group(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.ApplyDeployment(t.Context(), deployment.Document{Name: "shop", Groups: []group.Spec{g.Spec}}, client.DeploymentOptions{}); err != nil {
		t.Fatal(err)
	}
	wants(t, "nothing to do", f.must("plan"), "No changes")

	f.write("main.tf", groupOf("two", 2, quick)+slot("  metadata = { tier = \"canary\" }\n  depends_on = [cadre_group.web]\n"))
	refused("another spec", "Group web has its spec in deployment shop", "terraform state rm")
	f.write("main.tf", "")
	refused("a destroy", "Group web has its spec in deployment shop", "cadre group delete web")
	f.must("state", "rm", "cadre_group.web")

	f.write("main.tf", slot("  metadata = { tier = \"gold\" }\n"))
	refused("another setting", "Slot web-1 has its settings in deployment shop", `instance "1" { } into group "web"`)
	present()

	// The way out: the resource keeps its overrides, and removes nothing from the document.
	f.write("main.tf", slot("  protect {\n    reason = \"a long export\"\n  }\n"))
	f.must("apply", "-auto-approve")
	stands(t, s, "the way out", "protect web-1: a long export until taken back")
	if doc := present(); doc.Groups[0].Instance(1).Metadata["tier"] != "canary" {
		t.Errorf("the document lost the setting: %+v", doc.Groups[0].Instances)
	}
	f.must("destroy", "-auto-approve")
	present()

	// A new deployment and a setting of one slot in one run: the plan cannot know the deployment.
	f.write("new.hcl", strings.NewReplacer(`"shop"`, `"new"`, `"web"`, `"front"`, `"db"`, `"back"`).Replace(shopText(2)))
	f.write("main.tf", "resource \"cadre_deployment\" \"new\" {\n  document = file(\"new.hcl\")\n}\nresource \"cadre_instance\" \"front\" {\n  group = \"front\"\n  ordinal = 1\n  metadata = { tier = \"gold\" }\n  depends_on = [cadre_deployment.new]\n}\n")
	out, ok := f.run("apply", "-auto-approve")
	if wants(t, "one run", out, "group front belongs to deployment new"); ok {
		t.Error("a setting was written into a group of a deployment")
	}
	if d, err := cl.Deployment(t.Context(), "new", 0); err != nil || len(d.Drifted) > 0 {
		t.Errorf("%+v, %v", d.Drifted, err)
	}
}
