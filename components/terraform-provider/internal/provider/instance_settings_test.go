package provider_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// A slot's own settings are stored in the spec of its group: the instance writes them without the
// group, the group's apply keeps them, and the instance removes them.
func TestSlotsHaveSettingsOfTheirOwn(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, func(s *clienttest.Server) {
		arrived(s)
		leads := s.OnApply
		s.OnApply = func(g *clienttest.Group) {
			leads(g)
			for n := range g.Spec.Replicas {
				g.Status.Instances = append(g.Status.Instances, group.InstanceStatus{Slot: group.SlotName("web", n), Ordinal: n, State: client.StateAvailable, Observed: g.Status.Target, InstanceID: "i", VIP: "127.32.0.1"})
			}
		}
	})
	stored := func(want string) {
		t.Helper()
		s.Set("web", func(g *clienttest.Group) {
			if got, err := json.Marshal(g.Spec.Instances); err != nil || string(got) != want {
				t.Errorf("stored %s, %v; want %s", got, err, want)
			}
		})
	}
	one := func(body string) string {
		return "\nresource \"cadre_instance\" \"one\" {\n  group   = cadre_group.web.name\n  ordinal = 1\n" + body + "}\noutput \"told\" {\n  value = cadre_instance.one.meta\n}\n"
	}
	const own = "  meta = { tier = \"db\", rack = \"a\" }\n  instance {\n    ordinal  = 0\n    metadata = { first = \"yes\" }\n  }\n"
	const first = `{"ordinal":0,"metadata":{"first":"yes"}}`
	f := newFolder(t, program).of(file)
	for _, step := range []struct{ what, release, more, want string }{
		{"its own", "one", one("  metadata = { rack = \"b\" }\n  exclude_from_rollout = true\n"), `[` + first + `,{"ordinal":1,"metadata":{"rack":"b"},"exclude_from_rollout":true}]`},
		{"its group is applied", "two", one("  metadata = { rack = \"b\" }\n  exclude_from_rollout = true\n"), `[` + first + `,{"ordinal":1,"metadata":{"rack":"b"},"exclude_from_rollout":true}]`},
		{"other ones, and its group", "three", one("  metadata = { rack = \"c\" }\n"), `[` + first + `,{"ordinal":1,"metadata":{"rack":"c"}}]`},
		{"taken back, and its group", "four", "", `[` + first + `]`},
	} {
		f.write("main.tf", groupOf(step.release, 2, quick+own)+step.more)
		out := f.must("apply", "-auto-approve")
		stored(step.want)
		if step.what == "its own" {
			wants(t, step.what, out, `"rack" = "b"`, `"tier" = "db"`)
			continue
		}
		if step.more != "" {
			wants(t, step.what, f.must("plan"), "No changes")
		}
	}
	f.write("main.tf", groupOf("four", 2, quick+own)+one("  metadata = { rack = \"b\" }\n"))
	f.must("apply", "-auto-approve")
	s.Set("web", func(g *clienttest.Group) {
		g.Spec.Instances[1].Metadata["rack"] = "by hand"
		g.Index++
	})
	wants(t, "a change by hand", f.must("plan"), `"by hand" -> "b"`)
	s.SetWayOut(clienttest.WayOut{Deleted: &apiv1.DeleteGroupResponse{Changed: true}})
	f.must("destroy", "-auto-approve")

	f.write("main.tf", groupOf("four", 2, quick)+one("  exclude_from_rollout = true\n  revision = cadre_group.web.revision\n"))
	out, ok := f.run("validate")
	if wants(t, "both", out, "revision and exclude_from_rollout are both set"); ok {
		t.Error("it is valid")
	}
	f.write("main.tf", groupOf("four", 1, quick)+strings.Replace(one("  metadata = { a = \"b\" }\n"), "ordinal = 1", "ordinal = 7", 1))
	out, ok = f.run("apply", "-auto-approve")
	if wants(t, "no such slot", out, "Group web has no slot of ordinal 7"); ok {
		t.Error("a slot that is not there was set up")
	}
	stored(`null`)
}

// A slot's disk is preserved by its own resource, and given up by a word of its own: not
// because the resource goes in the same run as its group.
func TestASlotPreservesItsDisk(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, func(s *clienttest.Server) {
		arrived(s)
		leads := s.OnApply
		s.OnApply = func(g *clienttest.Group) {
			leads(g)
			g.Status.Instances = []group.InstanceStatus{{Slot: "web-0", State: client.StateAvailable, Observed: g.Status.Target, InstanceID: "i", VIP: "127.32.0.1"}}
		}
	})
	stored := func(what, want string) {
		t.Helper()
		s.Set("web", func(g *clienttest.Group) {
			if got := g.Spec.PreservedDisk(0); got != want {
				t.Errorf("%s: the spec preserves %q, want %q", what, got, want)
			}
		})
	}
	one := func(body string) string {
		return groupOf("one", 1, quick) + "\nresource \"cadre_instance\" \"one\" {\n  group    = cadre_group.web.name\n  ordinal  = 0\n  metadata = { a = \"b\" }\n" + body + "}\n"
	}
	f := newFolder(t, program).of(file)
	f.write("main.tf", one("  preserved_state {\n    disk = \"My Disk\"\n  }\n"))
	if out, ok := f.run("validate"); ok || !strings.Contains(out, "preserved_state names no disk") {
		t.Errorf("a name that is none: %v, %s", ok, out)
	}
	f.write("main.tf", one("  preserved_state {\n    disk = \"data\"\n  }\n"))
	f.must("apply", "-auto-approve")
	stored("applied", "data")
	wants(t, "after it", f.must("plan"), "No changes")
	wants(t, "its state", f.must("state", "show", "cadre_instance.one"), "preserved_disk", `"data"`)
	s.Set("web", func(g *clienttest.Group) {
		g.Spec.Instances[0].PreservedState.Disk = ""
		g.Index++
	})
	wants(t, "a change by hand", f.must("apply", "-auto-approve"), `+ disk = "data"`)
	stored("put back", "data")
	f.write("main.tf", one(""))
	f.must("apply", "-auto-approve")
	stored("taken out", "")
	wants(t, "after that", f.must("plan"), "No changes")

	f.write("main.tf", one("  preserved_state {\n    disk = \"data\"\n  }\n"))
	f.must("apply", "-auto-approve")
	s.SetWayOut(clienttest.WayOut{Deleted: &apiv1.DeleteGroupResponse{Changed: true}})
	refused := func(what string) {
		t.Helper()
		out, ok := f.run("destroy", "-auto-approve")
		if wants(t, what, out, "Group web preserves disks"); ok {
			t.Errorf("%s: a preserved disk went with its group", what)
		}
		stored(what, "data")
	}
	refused("a destroy of both")
	wants(t, "a destroy of the slot's resource", f.must("destroy", "-auto-approve", "-target=cadre_instance.one"), "stays preserved")
	refused("a destroy of the group")
	s.Set("web", func(g *clienttest.Group) {
		if len(g.Spec.Instances) != 1 || g.Spec.Instances[0].Metadata != nil {
			t.Errorf("the other settings are not taken back: %+v", g.Spec.Instances)
		}
	})
}

// A client that writes the spec all the time is reported long before the timeout.
func TestASpecThatChangesAllTheTimeIsReported(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, func(s *clienttest.Server) {
		arrived(s)
		leads := s.OnApply
		s.OnApply = func(g *clienttest.Group) {
			leads(g)
			g.Status.Instances = []group.InstanceStatus{{Slot: "web-0", State: client.StateAvailable, Observed: g.Status.Target}}
		}
	})
	f := newFolder(t, program).of(file)
	f.write("main.tf", groupOf("one", 1, quick))
	f.must("apply", "-auto-approve")
	s.Fail("ApplyGroup", status.Error(codes.Aborted, "SPEC_CONFLICT: somebody changed the spec"))
	f.write("main.tf", groupOf("one", 1, quick)+"\nresource \"cadre_instance\" \"one\" {\n  group    = cadre_group.web.name\n  ordinal  = 0\n  metadata = { a = \"b\" }\n}\n")
	out, ok := f.run("apply", "-auto-approve", "-target=cadre_instance.one")
	if wants(t, "an apply", out, "SPEC_CONFLICT"); ok {
		t.Error("it was applied")
	}
}

// An apply of a group writes back the settings of other owners' slots: a provider that does not
// know all of them refuses to write.
func TestAnOlderProviderDropsNothingOfOthers(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, arrived)
	f := newFolder(t, program).of(file)
	f.write("main.tf", groupOf("one", 2, quick))
	f.must("apply", "-auto-approve")
	newer := func(g *clienttest.Group) {
		g.Spec.Instances = []group.InstanceSettings{{Ordinal: 1, Metadata: map[string]string{"a": "b"}}}
		raw, err := json.Marshal(g.Spec)
		if err != nil {
			t.Fatal(err)
		}
		g.Stored = []byte(strings.Replace(string(raw), `{"ordinal":1,`, `{"ordinal":1,"of_tomorrow":true,`, 1))
		g.Index++
		g.Status.ObservedIndex = g.Index
	}
	f.write("main.tf", groupOf("two", 2, quick))
	f.must("plan", "-out=plan.bin")
	s.Set("web", newer)
	for _, args := range [][]string{{"plan"}, {"apply", "plan.bin"}} {
		out, ok := f.run(args...)
		if wants(t, args[0], out, "of_tomorrow", "update the provider"); ok {
			t.Errorf("%s of a spec that the provider does not know: no error", args[0])
		}
	}
	s.Set("web", func(g *clienttest.Group) {
		if g.Stored == nil {
			t.Error("the spec was written")
		}
	})
}

// A disk that another owner preserved is not destroyed, with any state of Terraform, and an import
// shows it.
func TestADiskPreservedByAnotherOwnerIsNotDestroyed(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, arrived)
	f := newFolder(t, program).of(file)
	f.write("main.tf", groupOf("one", 2, quick))
	f.must("apply", "-auto-approve")
	s.Set("web", func(g *clienttest.Group) {
		g.Spec.Instances = []group.InstanceSettings{{Ordinal: 1, PreservedState: group.PreservedState{Disk: "data"}}}
		g.Index++
		g.Status.ObservedIndex = g.Index
	})
	wants(t, "a plan beside it", f.must("plan"), "No changes")
	s.SetWayOut(clienttest.WayOut{Deleted: &apiv1.DeleteGroupResponse{Changed: true}})
	out, ok := f.run("destroy", "-auto-approve")
	if wants(t, "a destroy", out, "Group web preserves disks", "those of web-1", "delete_disks = true deletes the disks"); ok {
		t.Error("a preserved disk was destroyed")
	}
	other := newFolder(t, program).of(file)
	other.write("main.tf", groupOf("one", 2, quick))
	other.must("import", "cadre_group.web", "web")
	wants(t, "what was imported", other.must("state", "show", "cadre_group.web"), `disk = "data"`)
	f.write("main.tf", groupOf("one", 2, quick+"  delete_disks = true\n"))
	f.must("apply", "-auto-approve")
	f.must("destroy", "-auto-approve")
}

// A slot that joins rollouts and requests its update in one step is judged by the new spec.
// Settings of a slot that could not be made are removed.
func TestASlotIsJudgedByTheSpecThatAsksForIt(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, func(s *clienttest.Server) {
		arrived(s)
		leads := s.OnApply
		applied := 0
		s.OnApply = func(g *clienttest.Group) {
			if applied++; applied > 1 {
				return // the leader has not seen it
			}
			leads(g)
			g.Status.Instances = []group.InstanceStatus{{Slot: "web-0", State: client.StateAvailable, Observed: "old", InstanceID: "i", VIP: "127.32.0.1"}}
		}
	})
	f := newFolder(t, program).of(file)
	f.write("main.tf", groupOf("one", 1, quick)+"\nresource \"cadre_instance\" \"one\" {\n  group    = cadre_group.web.name\n  ordinal  = 0\n  metadata = { a = \"b\" }\n  revision = cadre_group.web.revision\n  timeouts {\n    create = \"3s\"\n  }\n}\n")
	out, ok := f.run("apply", "-auto-approve")
	if wants(t, "a leader that lags", out, "Slot web-0 is not available at its revision after 3s"); ok || strings.Contains(out, "no step is planned") {
		t.Errorf("judged by what was said before: %s", out)
	}
	s.Set("web", func(g *clienttest.Group) {
		if len(g.Spec.Instances) != 0 {
			t.Errorf("settings are left of a slot that is in no state: %+v", g.Spec.Instances)
		}
	})
}
