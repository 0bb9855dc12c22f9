package provider_test

import (
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// sizedServer obeys it. A slot whose CVM has another size than its own settings say gets it when its
// step is asked for; where it is held, no step of it is planned.
func sizedServer(held bool) func(*clienttest.Server) {
	return func(s *clienttest.Server) {
		given := map[string]string{}
		look := func(g *clienttest.Group) {
			g.Status.Instances, g.Plan.Actions = nil, nil
			for n := range g.Spec.Replicas {
				i := group.InstanceStatus{Slot: group.SlotName("web", n), Ordinal: n, State: client.StateAvailable, Observed: g.Status.Target, InstanceID: "i", VIP: "127.32.0.1"}
				own := g.Spec.OwnInstanceType(n, g.Spec.Template)
				switch {
				case own != given[i.Slot]:
					i.OwnInstanceType = group.OwnUnapplied
					if !held {
						g.Plan.Actions = append(g.Plan.Actions, rollout.Action{Slot: i.Slot, Kind: operation.Update, Way: operation.Way{Mode: operation.ModeOwn}, Holds: []rollout.Hold{{Predicate: rollout.HoldOpportunistic, Message: "restart the slot"}}})
					}
				case own != "":
					i.OwnInstanceType = group.OwnApplied
				}
				g.Status.Instances = append(g.Status.Instances, i)
			}
		}
		arrived(s)
		leads := s.OnApply
		s.OnApply = func(g *clienttest.Group) {
			leads(g)
			look(g)
		}
		s.OnUpdate = func(g *clienttest.Group, slot string) {
			_, n, _ := group.ParseSlot(slot)
			given[slot] = g.Spec.OwnInstanceType(n, g.Spec.Template)
			look(g)
		}
	}
}

// TestR143_ASlotHasASizeOfItsOwn: an apply waits until its CVM has the size, and takes it back the same way. The plan
// names the restart, and a change by another client shows.
func TestR143_ASlotHasASizeOfItsOwn(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, sizedServer(false))
	f := newFolder(t, program).of(file)
	f.write("main.tf", coloured(""))
	f.must("apply", "-auto-approve")
	for n, step := range []struct{ size, want string }{
		{"  instance_type = \"tdx.large\"\n", `[{"ordinal":1,"instance_type":"tdx.large"}]`},
		{"  instance_type = \"tdx.medium\"\n", `[{"ordinal":1,"instance_type":"tdx.medium"}]`},
		{"", `null`},
	} {
		f.write("main.tf", coloured(slotOne("one", step.size)))
		wants(t, "a plan of it", f.must("plan"), "Slot web-1 is restarted for its instance_type")
		f.must("apply", "-auto-approve")
		storedSettings(t, s, step.size, step.want)
		if got := len(s.Updates()); got != n+1 {
			t.Errorf("%s: %d steps were asked for: %q", step.size, got, s.Updates())
		}
		wants(t, "after it", f.must("plan"), "No changes")
	}
	f.write("main.tf", coloured(slotOne("one", "  instance_type = \"tdx.large\"\n")))
	f.must("apply", "-auto-approve")
	s.Set("web", func(g *clienttest.Group) {
		g.Spec.Instances[0].InstanceType = "tdx.huge"
		g.Index++
	})
	wants(t, "a change by hand", f.must("plan"), `"tdx.huge" -> "tdx.large"`)
	f.must("destroy", "-auto-approve", "-target=cadre_instance.one")
	storedSettings(t, s, "destroyed", `null`)
	// The block of the group is the same setting.
	f.write("main.tf", strings.Replace(coloured(""), "\n}\n", "\n  instance {\n    ordinal       = 1\n    instance_type = \"tdx.large\"\n  }\n}\n", 1))
	f.must("apply", "-auto-approve")
	storedSettings(t, s, "the block", `[{"ordinal":1,"instance_type":"tdx.large"}]`)
}

// TestR143_ASizeOfASlotIsJudged: an empty size, or a size of two words, fails before anything is written, and an
// excluded slot keeps its size with a warning.
func TestR143_ASizeOfASlotIsJudged(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, sizedServer(true))
	f := newFolder(t, program).of(file)
	for size, says := range map[string]string{"": "instance_type: is empty", "tdx large": "must be one word"} {
		f.write("main.tf", coloured(slotOne("one", "  instance_type = \""+size+"\"\n")))
		if out, ok := f.run("validate"); ok || !strings.Contains(out, says) {
			t.Errorf("%q: valid %v: %s", size, ok, out)
		}
	}
	f.write("main.tf", coloured(slotOne("one", "  instance_type = \"tdx.large\"\n  exclude_from_rollout = true\n")))
	wants(t, "an apply", f.must("apply", "-auto-approve"), "Slot web-1 keeps the instance_type that it has")
	storedSettings(t, s, "applied", `[{"ordinal":1,"instance_type":"tdx.large","exclude_from_rollout":true}]`)
}
