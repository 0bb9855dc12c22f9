package provider_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/coordinator/wholetest"
)

// slots are the slots of web with their states.
func (c *cluster) slots(t *testing.T) string {
	t.Helper()
	list, err := c.client.Instances(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, i := range list {
		out = append(out, fmt.Sprintf("%s %s", i.Slot, i.State))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// In an OPPORTUNISTIC group whose slots wait for their update, an apply waits for an added slot. It
// does not wait for a slot that stays for its disk, and waits again once the disk is given up.
func TestAnOpportunisticGroupGrowsAndShrinks(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	c := startCluster(t, nil)
	f := newFolder(t, program)
	f.write("main.tf", groupOf("one", 1, opportunistic))
	f.must("apply", "-auto-approve")
	for _, step := range []struct {
		what     string
		replicas int
		more     string
		want     string
	}{
		{"a slot more", 3, "", "web-0 Available, web-1 Available, web-2 Available"},
		{"disks hold two", 1, "", "web-0 Available, web-1 Terminating, web-2 Terminating"},
		{"disks are given up", 1, "  delete_disks = true\n", "web-0 Available"},
	} {
		f.write("main.tf", groupOf("two", step.replicas, opportunistic+step.more))
		f.must("apply", "-auto-approve")
		if got := c.slots(t); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
		if step.more == "" && step.replicas == 1 {
			wants(t, step.what, f.must("plan"), "No changes")
		}
	}
	// Without a wait, the next plan finds the running rollout, and the plan after it finds the
	// completed one.
	f.write("main.tf", groupOf("two", 2, opportunistic+"  wait_for_rollout = false\n")+"output \"complete\" {\n  value = cadre_group.web.rollout_complete\n}\n")
	f.must("apply", "-auto-approve")
	if err := c.client.Wait(t.Context(), "web", client.WaitOptions{Index: c.index(t)}); err != nil {
		t.Fatal(err)
	}
	wants(t, "in the end", f.must("apply", "-auto-approve"), "complete = true")
}

// index is that of the stored spec of web.
func (c *cluster) index(t *testing.T) uint64 {
	t.Helper()
	g, err := c.client.Group(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	return g.Index
}
