package provider_test

import (
	"strings"
	"testing"

	"cadre.dev/coordinator/wholetest"
)

// wants fails the test for each text that out lacks.
func wants(t *testing.T, what, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("%s: %q is missing in\n%s", what, text, out)
		}
	}
}

// The operator's view: a plan lists the moves, a protected group is not destroyed, a change by
// another client shows, and no secret is left behind.
func TestPlansSayWhatMoves(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	c := startCluster(t, nil)
	f := newFolder(t, program)
	f.write("main.tf", groupOf("one", 2, quick))
	wants(t, "a first plan", f.must("plan"), "Group web: 2 steps to revision", "1. web-0: create", "2. web-1: create", "held: predecessor")
	f.must("apply", "-auto-approve")

	f.write("main.tf", groupOf("two", 2, quick+"  deletion_protection = true\n"))
	wants(t, "a plan of another release", f.must("plan"), "Group web: 2 steps to revision", "web-1: update", "web-0: update", "update in-place")
	f.must("apply", "-auto-approve")
	wants(t, "nothing to do", f.must("plan"), "No changes")

	out, ok := f.run("destroy", "-auto-approve")
	if wants(t, "protected", out, "Group web is protected from deletion"); ok {
		t.Error("a protected group was destroyed")
	}
	f.write("main.tf", groupOf("two", 2, quick+"  preserved_state {\n    disk = \"data\"\n  }\n"))
	f.must("apply", "-auto-approve")
	out, ok = f.run("destroy", "-auto-approve")
	if wants(t, "preserved", out, "Group web preserves disks", `the disk "data" of each`, "delete_disks = true deletes the disks"); ok {
		t.Error("a preserved disk was destroyed")
	}

	there, err := c.client.Group(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	there.Spec.Meta = map[string]string{"by": "hand"}
	if _, err := c.client.ApplyGroup(t.Context(), there.Spec, there.Index, false); err != nil {
		t.Fatal(err)
	}
	wants(t, "drift", f.must("plan"), `- "by" = "hand"`)

	f.write("main.tf", groupOf("two", 2, quick+"  preserved_state {\n    disk = \"data\"\n  }\n  delete_disks = true\n"))
	f.must("apply", "-auto-approve")
	wants(t, "a plan to destroy", f.must("plan", "-destroy"), "Group web is taken down: web-0, web-1")
	if there, err = c.client.Group(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	there.Spec.Meta = map[string]string{"by": "hand"}
	if _, err := c.client.ApplyGroup(t.Context(), there.Spec, there.Index, false); err != nil {
		t.Fatal(err)
	}
	out, ok = f.run("destroy", "-auto-approve", "-refresh=false")
	if wants(t, "changed behind its back", out, "was changed since it was read"); ok {
		t.Error("a group was destroyed by what it was")
	}
	f.must("destroy", "-auto-approve")
	if list, err := c.client.Groups(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("after destroy: %v, %v", list, err)
	}
	f.hasNo(c.OperatorToken)
}
