package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/deployment"
)

// shopText is a document of two groups.
func shopText(replicas int, edits ...string) string {
	text := fmt.Sprintf(`deployment "shop" {
  labels = { team = "sales" }
  group "db" {
    replicas = 3
    template {
      compose       = "services:\n  app:\n    image: example.org/app@sha256:%s\n"
      instance_type = "tdx.small"
      os_image      = "dstack-0.5.7"
    }
  }
  group "web" {
    replicas = %d
    template {
      compose       = "services:\n  app:\n    image: example.org/app@sha256:%[1]s\n"
      instance_type = "tdx.small"
      os_image      = "dstack-0.5.7"
    }
  }
}
`, strings.Repeat("a", 64), replicas)
	return strings.NewReplacer(edits...).Replace(text)
}

// document is the document of a text.
func document(t *testing.T, text string) deployment.Document {
	t.Helper()
	d, err := groupfile.ReadDeployment("document", []byte(text), ".", groupfile.Vars{})
	if err != nil {
		t.Fatal(err)
	}
	return d.Document()
}

func TestADeploymentFollowsItsDocument(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, arrived)
	f := newFolder(t, program).of(file)
	resource := func(body string) string {
		return "resource \"cadre_deployment\" \"shop\" {\n  document = file(\"shop.hcl\")\n" + body + "}\noutput \"version\" {\n  value = cadre_deployment.shop.version\n}\n"
	}
	f.write("main.tf", resource("  reason = \"release 1\"\n"))
	f.write("shop.hcl", shopText(2))
	wants(t, "the first plan", f.must("plan"), "Group db is new", "Group web is new", "Version 1 of deployment shop")
	wants(t, "the first apply", f.must("apply", "-auto-approve"), "version = 1")
	wants(t, "after it", f.must("plan"), "No changes")

	f.write("shop.hcl", shopText(4))
	out := f.must("plan")
	wants(t, "a change", out, "replicas = 2", "replicas = 4", "Group web changes", "= 1 -> 2")
	if strings.Contains(out, "Group db changes") {
		t.Errorf("a group that stays is listed:\n%s", out)
	}
	f.must("apply", "-auto-approve")

	// Another client goes back: the plan shows the next version, and the apply writes the document again.
	cl := byHand(t, s)
	if _, err := cl.UndoDeployment(t.Context(), "shop", 0, client.DeploymentOptions{}); err != nil {
		t.Fatal(err)
	}
	wants(t, "undone by hand", f.must("plan"), "Group web changes", "3 -> 4")
	f.must("apply", "-auto-approve")
	d, err := cl.Deployment(t.Context(), "shop", 0)
	if err != nil || d.Present().Number != 4 || d.Document.Groups[1].Replicas != 4 {
		t.Errorf("%+v, %v", d, err)
	}

	for text, says := range map[string]string{
		shopText(0):                               `group["web"].replicas`,
		shopText(4, `"sales"`, `"a b"`):           `labels["team"]`,
		"group \"web\" {}\n":                      "there is no deployment block",
		shopText(4, "replicas = 3", "replicsa=3"): "replicsa",
		shopText(4, "replicas = 3", "replicas = 3\n    meta = { a = file(\"a.txt\") }"):             "a.txt: no such file or directory; relative paths start at the folder " + f.path,
		shopText(4, "replicas = 3", "replicas = 3\n    meta = { a = templatefile(\"b.txt\", {}) }"): "set folder, such as folder = path.module",
	} {
		f.write("shop.hcl", text)
		out, ok := f.run("plan")
		if wants(t, "a wrong document", out, says); ok {
			t.Errorf("%s is planned", says)
		}
	}
	f.write("shop.hcl", shopText(4))
	f.write("main.tf", resource("  deletion_protection = true\n"))
	f.must("apply", "-auto-approve")
	if out, ok := f.run("destroy", "-auto-approve"); ok || !strings.Contains(out, "protected from deletion") {
		t.Errorf("a protected deployment: %s", out)
	}
	f.write("main.tf", resource(""))
	f.must("apply", "-auto-approve")
	// Another client keeps the disks of one group, which no version shows.
	db, err := cl.Group(t.Context(), "db")
	if err != nil {
		t.Fatal(err)
	}
	kept := db.Spec
	kept.PreservedState.Disk = "data"
	if _, err := cl.ApplyGroup(t.Context(), kept, 0, false); err != nil {
		t.Fatal(err)
	}
	if out, ok := f.run("destroy", "-auto-approve"); ok || !strings.Contains(out, "Group db preserves disks") {
		t.Errorf("a group that was edited alone to keep its disks: %v, %s", ok, out)
	}
	if _, err := cl.ApplyGroup(t.Context(), db.Spec, 0, false); err != nil {
		t.Fatal(err)
	}
	wants(t, "the destroy", f.must("destroy", "-auto-approve"), "Deployment shop is taken down")
	if list, err := cl.Deployments(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// TestADeploymentOverwritesNoEditAfterItsPlan: an operator edits one group between the plan and its apply.
func TestADeploymentOverwritesNoEditAfterItsPlan(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, arrived)
	cl := byHand(t, s)
	f := newFolder(t, program).of(file)
	f.write("main.tf", "resource \"cadre_deployment\" \"shop\" {\n  document = file(\"shop.hcl\")\n}\n")
	replicas := func(want int, edit bool) {
		t.Helper()
		web, err := cl.Group(t.Context(), "web")
		if err == nil && edit {
			web.Spec.Replicas = want
			_, err = cl.ApplyGroup(t.Context(), web.Spec, 0, false)
		}
		if err != nil || web.Spec.Replicas != want {
			t.Errorf("web: %+v, %v, want %d replicas", web.Spec, err, want)
		}
	}
	refused := func(what string, says ...string) {
		t.Helper()
		out, ok := f.run("apply", "plan.bin")
		if wants(t, what, out, append(says, "changed since it was read", "web", "write its present spec into the document first")...); ok {
			t.Errorf("%s: the edit is overwritten:\n%s", what, out)
		}
	}

	// Another program makes a group that the plan of the first version found absent.
	f.write("shop.hcl", shopText(2))
	f.must("plan", "-out=plan.bin")
	other := document(t, shopText(7)).Groups[1]
	other.Platform = cl.Context().Platform.Driver
	if _, err := cl.ApplyGroup(t.Context(), other, 0, false); err != nil {
		t.Fatal(err)
	}
	refused("a new group", "GROUP_EXISTS: group web")
	replicas(7, false)
	replicas(2, true) // by the spec of the document, the group joins
	f.must("apply", "-auto-approve")

	f.write("shop.hcl", shopText(4))
	f.must("plan", "-out=plan.bin")
	replicas(5, true)
	refused("an edit after the plan of a change", "SPEC_CONFLICT: the spec of web")
	replicas(5, false)
	wants(t, "the next plan", f.must("plan"), "Group web changes")
	f.must("apply", "-auto-approve")
	replicas(4, false)
	wants(t, "after it", f.must("plan"), "No changes")

	// The plan of another argument changes no group.
	f.write("main.tf", "resource \"cadre_deployment\" \"shop\" {\n  document = file(\"shop.hcl\")\n  reason   = \"audit\"\n}\n")
	f.must("plan", "-out=plan.bin")
	replicas(5, true)
	refused("an edit after a plan that changes no group", "SPEC_CONFLICT: the spec of web")
	replicas(5, false)
}

// TestADeploymentIsNotRenamed: a rename would delete the groups and their data.
func TestADeploymentIsNotRenamed(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, arrived)
	f := newFolder(t, program).of(file)
	f.write("main.tf", "resource \"cadre_deployment\" \"shop\" {\n  document = file(\"shop.hcl\")\n  delete_disks = true\n}\n")
	f.write("shop.hcl", shopText(2))
	f.must("apply", "-auto-approve")
	f.write("shop.hcl", shopText(2, `deployment "shop"`, `deployment "store"`, `group "db"`, `group "store-db"`, `group "web"`, `group "store-web"`))
	out, ok := f.run("apply", "-auto-approve")
	if wants(t, "a rename", out, "Deployment shop cannot be renamed to store", `Keep the name "shop"`, "cadre deployment clone shop store"); ok {
		t.Error("the deployment is renamed")
	}
	if list, err := byHand(t, s).Deployments(t.Context()); err != nil || len(list) != 1 || list[0].Name != "shop" {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestADestroyOfADeploymentWaitsForItsGroups: also after a run that ended while it waited, when the record of the deployment
// is gone, and for a group that another client added.
func TestADestroyOfADeploymentWaitsForItsGroups(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, arrived)
	f := newFolder(t, program).of(file)
	f.write("main.tf", "resource \"cadre_deployment\" \"shop\" {\n  document = file(\"shop.hcl\")\n  timeouts {\n    delete = \"5s\"\n  }\n}\n")
	f.write("shop.hcl", shopText(2))
	f.must("apply", "-auto-approve")
	doc := document(t, shopText(2))
	cache := doc.Groups[1]
	cache.Name = "cache"
	doc.Groups = append(doc.Groups, cache)
	if _, err := byHand(t, s).ApplyDeployment(t.Context(), doc, client.DeploymentOptions{}); err != nil {
		t.Fatal(err)
	}
	begun, release := s.HoldDeletes()
	defer release()
	r := f.begin("destroy", "-auto-approve")
	<-begun
	r.killProvider()
	if out, ok := r.wait(); ok {
		t.Fatalf("a destroy whose provider was killed succeeded:\n%s", out)
	}
	wants(t, "a plan to destroy", f.must("plan", "-destroy"), "The deletion of deployment shop has begun", "cache, db, web")
	if out, ok := f.run("destroy", "-auto-approve"); ok {
		t.Errorf("a destroy ended before the groups were gone:\n%s", out)
	}
	wants(t, "the state", f.must("state", "list"), "cadre_deployment.shop")
	release()
	f.must("destroy", "-auto-approve")
	if out := f.must("state", "list"); strings.Contains(out, "cadre_deployment") {
		t.Errorf("left in the state: %s", out)
	}
}

// TestADeploymentThatTheStateLacks: an earlier run failed after its write, or another author made the deployment.
func TestADeploymentThatTheStateLacks(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, arrived)
	cl := byHand(t, s)
	f := newFolder(t, program).of(file)
	f.write("main.tf", "resource \"cadre_deployment\" \"shop\" {\n  document = file(\"shop.hcl\")\n}\n")
	f.write("shop.hcl", shopText(4))
	f.must("plan", "-out=plan.bin")
	doc := document(t, shopText(2))
	for i := range doc.Groups {
		doc.Groups[i].Platform = cl.Context().Platform.Driver
	}
	if _, err := cl.ApplyDeployment(t.Context(), doc, client.DeploymentOptions{}); err != nil {
		t.Fatal(err)
	}
	ways := []string{"Deployment shop exists already", "terraform import cadre_deployment.NAME shop", "cadre deployment delete shop"}
	wants(t, "a plan", f.must("plan"), ways...)
	for _, args := range [][]string{{"apply", "plan.bin"}, {"apply", "-auto-approve"}} {
		out, ok := f.run(args...)
		if wants(t, strings.Join(args, " "), out, append(ways, "nothing was changed")...); ok || strings.Contains(out, "inconsistent") {
			t.Errorf("%v: another content is written:\n%s", args, out)
		}
	}
	f.must("import", "cadre_deployment.shop", "shop")
	wants(t, "after the import", f.must("plan"), "Group web changes", "= 1 -> 2")
	f.must("apply", "-auto-approve")
	wants(t, "in the end", f.must("plan"), "No changes")

	// The same content is taken over without an import.
	f.must("state", "rm", "cadre_deployment.shop")
	if out := f.must("apply", "-auto-approve"); strings.Contains(out, "exists already") {
		t.Errorf("the same content:\n%s", out)
	}
	if d, err := cl.Deployment(t.Context(), "shop", 0); err != nil || d.Present().Number != 2 || d.Document.Groups[1].Replicas != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	if out, ok := f.run("import", "cadre_deployment.other", "other"); ok {
		t.Errorf("a deployment that does not exist is imported:\n%s", out)
	}
}

// TestAPlanOfADeploymentThatWasChangedSince: another client's version changes no spec, and so no index.
func TestAPlanOfADeploymentThatWasChangedSince(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, arrived)
	cl := byHand(t, s)
	f := newFolder(t, program).of(file)
	f.write("main.tf", "resource \"cadre_deployment\" \"shop\" {\n  document = file(\"shop.hcl\")\n}\n")
	f.write("shop.hcl", shopText(2))
	f.must("apply", "-auto-approve")
	f.write("shop.hcl", shopText(4))
	f.must("plan", "-out=plan.bin")
	d, err := cl.Deployment(t.Context(), "shop", 0)
	if err != nil {
		t.Fatal(err)
	}
	d.Document.Labels = map[string]string{"team": "support"}
	if _, err := cl.ApplyDeployment(t.Context(), d.Document, client.DeploymentOptions{}); err != nil {
		t.Fatal(err)
	}
	out, ok := f.run("apply", "plan.bin")
	if wants(t, "a saved plan", out, "Deployment shop was changed since it was read", "at version 2, and the state has version 1", "Plan again"); ok || strings.Contains(out, "inconsistent") {
		t.Errorf("a saved plan of an older version: %v\n%s", ok, out)
	}
	wants(t, "a plan again", f.must("plan"), "Group web changes", "= 2 -> 3")
	f.must("apply", "-auto-approve")

	// A replacement begins again with version 1.
	f.must("apply", "-auto-approve", "-replace=cadre_deployment.shop")
	if d, err := cl.Deployment(t.Context(), "shop", 0); err != nil || d.Present().Number != 1 {
		t.Errorf("replaced: %+v, %v", d, err)
	}

	f.write("shop.hcl", shopText(2))
	f.must("plan", "-out=plan.bin")
	if _, err := cl.DeleteDeployment(t.Context(), "shop", 0, client.Deletion{DeleteDisks: true, Reason: "moved"}); err != nil {
		t.Fatal(err)
	}
	out, ok = f.run("apply", "plan.bin")
	if wants(t, "deleted since", out, "Deployment shop was changed since it was read", "It was deleted"); ok || strings.Contains(out, "inconsistent") {
		t.Errorf("deleted since: %v\n%s", ok, out)
	}
}
