package provider_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"cadre.dev/client"
	"cadre.dev/coordinator/wholetest"
)

var errNotBegun = errors.New("the deletion has not begun")

// deleting waits until the coordinators delete the group web.
func (c *cluster) deleting(t *testing.T) {
	t.Helper()
	c.Eventually("a deletion", func() error {
		g, err := c.client.Group(t.Context(), "web")
		if err == nil && (g.Deleting == nil || !*g.Deleting) {
			return errNotBegun
		}
		return err
	})
}

// keep takes the deletion of web back.
func (c *cluster) keep(t *testing.T) {
	t.Helper()
	if _, err := c.client.DeleteGroup(t.Context(), "web", client.Deletion{Cancel: true}); err != nil {
		t.Fatal(err)
	}
}

// A destroy that is killed leaves a group in deletion. A plan and an apply name the ways out. A
// cancelled deletion leaves a group that can be applied, and the next destroy continues the killed
// one.
func TestADestroyThatWasKilledGoesOn(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	c := startCluster(t, nil)
	f := newFolder(t, program)
	f.write("main.tf", groupOf("one", 2, quick))
	f.must("apply", "-auto-approve")
	release := c.Platform.HoldDeletes()
	defer release()

	r := f.begin("destroy", "-auto-approve")
	c.deleting(t)
	r.killProvider()
	if out, ok := r.wait(); ok {
		t.Fatalf("a destroy whose provider was killed succeeded:\n%s", out)
	}
	wants(t, "a plan meanwhile", f.must("plan"), "= true -> false", "Group web is being deleted", "cadre group delete web --cancel")
	out, ok := f.run("apply", "-auto-approve")
	if wants(t, "an apply meanwhile", out, "Error: Group web is being deleted", "terraform destroy", "cadre group delete web --cancel"); ok {
		t.Error("a group that is being deleted was applied")
	}
	wants(t, "a plan to destroy", f.must("plan", "-destroy"), "Group web is taken down", "destroying continues it")

	c.keep(t) // events from here on belong to the next run
	r = f.begin("destroy", "-auto-approve")
	c.deleting(t)
	c.keep(t)
	out, ok = r.wait()
	if wants(t, "taken back", out, "its deletion was cancelled", "cadre group delete web --cancel"); ok {
		t.Error("a destroy that was taken back succeeded")
	}
	release()
	f.must("apply", "-auto-approve")
	wants(t, "after it was taken back", f.must("plan"), "No changes")

	release = c.Platform.HoldDeletes()
	defer release()
	r = f.begin("destroy", "-auto-approve")
	c.deleting(t)
	r.kill()
	if _, ok := r.wait(); ok {
		t.Error("a destroy that was killed succeeded")
	}
	release()
	f.must("destroy", "-auto-approve")
	if list, err := c.client.Groups(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("after destroy: %v, %v", list, err)
	}
	wants(t, "the state", f.must("plan"), "cadre_group.web will be created")
}

// Terraform itself is killed in the middle of a wait, so that not even the state is written: the
// next apply adopts the existing group and waits for it.
func TestAnApplyWhoseProgramWasKilledGoesOn(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	var flag atomic.Bool
	c := startCluster(t, sick("web-0", &flag))
	f := newFolder(t, program)
	for _, release := range []string{"one", "two"} {
		flag.Store(true)
		f.write("main.tf", groupOf(release, 1, quick))
		r := f.begin("apply", "-auto-approve")
		c.Eventually("a CVM of the release", func() error {
			list, err := c.client.Instances(t.Context(), "web")
			if err == nil && (len(list) != 1 || list[0].Observed == "" || list[0].Observed != list[0].Assigned) {
				return errNotBegun
			}
			if err != nil {
				return err
			}
			g, err := c.client.Group(t.Context(), "web")
			if err == nil && (list[0].Observed != g.Revision || !strings.Contains(g.Spec.Template.Compose, "RELEASE: "+release)) {
				return errNotBegun
			}
			return err
		})
		r.kill()
		if _, ok := r.wait(); ok {
			t.Error("an apply that was killed succeeded")
		}
		flag.Store(false)
		f.must("apply", "-auto-approve")
		wants(t, "after "+release, f.must("plan"), "No changes")
	}
}
