package provider_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// coloured is a group of two slots with values of env that each may have other ones of.
func coloured(more string) string {
	return strings.Replace(groupOf("one", 2, quick), "    os_image ", "    env = { COLOR = \"blue\", LIMIT = \"1\" }\n    os_image ", 1) + more
}

func slotOne(name, body string) string {
	return "\nresource \"cadre_instance\" \"" + name + "\" {\n  group   = cadre_group.web.name\n  ordinal = 1\n" + body + "}\n"
}

// colouredServer obeys it. A slot that is to have other env than it was given says so, and is given
// it when its step is asked for; where it is held, no step of it is planned.
func colouredServer(held bool) func(*clienttest.Server) {
	return func(s *clienttest.Server) {
		given := map[string]map[string]string{}
		look := func(g *clienttest.Group) {
			g.Status.Instances, g.Plan.Actions = nil, nil
			for n := range g.Spec.Replicas {
				i := group.InstanceStatus{Slot: group.SlotName("web", n), Ordinal: n, State: client.StateAvailable, Observed: g.Status.Target, InstanceID: "i", VIP: "127.32.0.1"}
				own := g.Spec.Instance(n).Env
				switch {
				case !maps.Equal(own, given[i.Slot]):
					i.OwnEnv = group.OwnUnapplied
					if !held {
						g.Plan.Actions = append(g.Plan.Actions, rollout.Action{Slot: i.Slot, Kind: operation.Update, Way: operation.Way{Mode: operation.ModeOwn}, Holds: []rollout.Hold{{Predicate: rollout.HoldOpportunistic, Message: "restart the slot"}}})
					}
				case len(own) > 0:
					i.OwnEnv = group.OwnApplied
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
			given[slot] = maps.Clone(g.Spec.Instance(n).Env)
			look(g)
		}
	}
}

func storedSettings(t *testing.T, s *clienttest.Server, what, want string) {
	t.Helper()
	s.Set("web", func(g *clienttest.Group) {
		if got, err := json.Marshal(g.Spec.Instances); err != nil || string(got) != want {
			t.Errorf("%s: stored %s, %v; want %s", what, got, err, want)
		}
	})
}

// TestR143_ASlotHasEnvOfItsOwn: an apply waits until its CVM was given it, and takes it back the same way.
func TestR143_ASlotHasEnvOfItsOwn(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, colouredServer(false))
	f := newFolder(t, program).of(file)
	f.write("main.tf", coloured(""))
	f.must("apply", "-auto-approve")
	for n, step := range []struct{ env, want string }{
		{"  env = { COLOR = \"red\" }\n", `[{"ordinal":1,"env":{"COLOR":"red"}}]`},
		{"  env = { COLOR = \"green\", LIMIT = \"2\" }\n", `[{"ordinal":1,"env":{"COLOR":"green","LIMIT":"2"}}]`},
		{"", `null`},
	} {
		f.write("main.tf", coloured(slotOne("one", step.env)))
		wants(t, "a plan of it", f.must("plan"), "Slot web-1 is restarted for its env")
		f.must("apply", "-auto-approve")
		storedSettings(t, s, step.env, step.want)
		if got := len(s.Updates()); got != n+1 {
			t.Errorf("%s: %d steps were asked for: %q", step.env, got, s.Updates())
		}
		wants(t, "after it", f.must("plan"), "No changes")
	}
	// A change by another client shows.
	f.write("main.tf", coloured(slotOne("one", "  env = { COLOR = \"red\" }\n")))
	f.must("apply", "-auto-approve")
	s.Set("web", func(g *clienttest.Group) {
		g.Spec.Instances[0].Env["COLOR"] = "pink"
		g.Index++
	})
	wants(t, "a change by hand", f.must("plan"), `"pink" -> "red"`)
	f.must("destroy", "-auto-approve", "-target=cadre_instance.one")
	storedSettings(t, s, "destroyed", `null`)
}

// TestR143_AnExcludedSlotKeepsItsEnv: the values are stored, and that they are not given yet is said.
func TestR143_AnExcludedSlotKeepsItsEnv(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, colouredServer(true))
	f := newFolder(t, program).of(file)
	f.write("main.tf", coloured(slotOne("one", "  env = { COLOR = \"red\" }\n  exclude_from_rollout = true\n")))
	wants(t, "an apply", f.must("apply", "-auto-approve"), "Slot web-1 keeps the env that it has")
	storedSettings(t, s, "applied", `[{"ordinal":1,"env":{"COLOR":"red"},"exclude_from_rollout":true}]`)
	if asked := s.Updates(); len(asked) != 0 {
		t.Errorf("asked for %q", asked)
	}
}

// TestASlotIsJudgedWhenItIsPlanned: a plan rejects settings that no group accepts, and warns of
// settings that this group rejects, because the same run may change the group.
func TestASlotIsJudgedWhenItIsPlanned(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, colouredServer(false))
	f := newFolder(t, program).of(file)
	key := "-----BEGIN PRIVATE " + "KEY-----"
	f.write("main.tf", coloured(slotOne("one", "  env = { COLOR = \""+key+"\" }\n  metadata = { \"a b\" = \"c\" }\n")))
	out, ok := f.run("validate")
	if wants(t, "without a group", out, `env["COLOR"]: holds a private key`, `metadata["a b"]`); ok {
		t.Error("it is valid")
	}
	f.write("main.tf", coloured(""))
	f.must("apply", "-auto-approve")
	f.write("main.tf", coloured(slotOne("one", "  env = { SIZE = \"2\" }\n")))
	wants(t, "a name that the group has not", f.must("plan"), "Settings of slot web-1 would be refused", "SIZE", "is not in template.env")
	f.write("main.tf", coloured(slotOne("one", "  metadata = { db_password = \"correct horse\" }\n")))
	wants(t, "what may be a secret", f.must("plan"), "Settings of slot web-1 would be refused", "db_password", "not_secret")
	f.write("main.tf", coloured(slotOne("one", "  env = { COLOR = \"red\" }\n")))
	if out := f.must("plan"); strings.Contains(out, "would be refused") {
		t.Errorf("what the group takes: %s", out)
	}
	storedSettings(t, s, "planned", `null`)
}

// TestASlotHasOneResource: a second one of the same configuration fails the plan, whether the
// slot's number is known early or only while it is applied, and nothing is written.
func TestASlotHasOneResource(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, colouredServer(false))
	f := newFolder(t, program).of(file)
	red, limit := slotOne("one", "  metadata = { a = \"b\" }\n"), slotOne("two", "  env = { LIMIT = \"2\" }\n")
	f.write("main.tf", coloured(red+limit))
	out, ok := f.run("plan")
	if wants(t, "two of one slot", out, "Slot web-1 has two resources"); ok {
		t.Error("it is planned")
	}
	f.write("main.tf", coloured(red))
	f.must("apply", "-auto-approve")
	f.write("main.tf", coloured(red+limit))
	if out, ok = f.run("apply", "-auto-approve"); ok || !strings.Contains(out, "has two resources") {
		t.Errorf("a second one beside one that is applied: %s", out)
	}
	storedSettings(t, s, "refused", `[{"ordinal":1,"metadata":{"a":"b"}}]`)
	// A slot that is planned twice in a run, because it is replaced, counts once.
	wants(t, "replaced", f.must("apply", "-auto-approve", "-replace=cadre_instance.one", "-target=cadre_instance.one"), "1 added")
	f.write("main.tf", coloured(strings.Replace(red, "ordinal = 1", "ordinal = 0", 1)))
	f.must("apply", "-auto-approve")
	storedSettings(t, s, "moved", `[{"ordinal":0,"metadata":{"a":"b"}}]`)
	f.write("main.tf", coloured(strings.Replace(red, "ordinal = 1", "ordinal = 0", 1)+limit))
	f.must("apply", "-auto-approve")
	// Two that change places are two.
	f.write("main.tf", coloured(red+strings.Replace(limit, "ordinal = 1", "ordinal = 0", 1)))
	f.must("plan")

	f.write("main.tf", "resource \"terraform_data\" \"n\" { input = 1 }\n"+coloured(red+strings.Replace(limit, "ordinal = 1", "ordinal = terraform_data.n.output", 1)))
	if out, ok = f.run("apply", "-auto-approve"); ok || !strings.Contains(out, "has two resources") {
		t.Errorf("a number that is known late: %s", out)
	}
}

// TestSettingsOfAnotherConfigurationAreNotOverwritten: a plan does not see another configuration's resource of
// the same slot; the second resource finds settings that it did not write, and leaves them.
func TestSettingsOfAnotherConfigurationAreNotOverwritten(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, colouredServer(false))
	f, other := newFolder(t, program).of(file), newFolder(t, program).of(file)
	f.write("main.tf", coloured(slotOne("one", "  metadata = { a = \"b\" }\n  env = { COLOR = \"red\" }\n")))
	f.must("apply", "-auto-approve")
	const mine = `[{"ordinal":1,"metadata":{"a":"b"},"env":{"COLOR":"red"}}]`
	second := strings.Replace(slotOne("two", "  env = { COLOR = \"green\" }\n"), "cadre_group.web.name", "\"web\"", 1)
	other.write("main.tf", second)
	out, ok := other.run("apply", "-auto-approve")
	if wants(t, "a second configuration", out, "Slot web-1 has settings already", "terraform import"); ok {
		t.Error("it was applied")
	}
	storedSettings(t, s, "refused", mine)
	// Equal values are no contradiction, and neither are values that the first resource does not
	// set.
	other.write("main.tf", strings.Replace(second, "green", "red", 1))
	other.must("apply", "-auto-approve")
	storedSettings(t, s, "the same", mine)
	// A slot that is taken over by its name is changed.
	third := newFolder(t, program).of(file)
	third.write("main.tf", second)
	third.must("import", "cadre_instance.two", "web-1")
	third.must("apply", "-auto-approve")
	storedSettings(t, s, "taken over", `[{"ordinal":1,"metadata":{"a":"b"},"env":{"COLOR":"green"}}]`)
}

// TestSettingsMoveToAResourceOfTheirOwn: a group applied without its instance block removes the
// settings before the cadre_instance writes them again, two steps of the slot. An imported instance
// has no block, and the apply writes nothing.
func TestSettingsMoveToAResourceOfTheirOwn(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	const env, stored = "env     = { COLOR = \"red\" }\n", `[{"ordinal":1,"env":{"COLOR":"red"}}]`
	block := strings.Replace(coloured(""), "\n}\n", "\n  instance {\n    ordinal = 1\n    "+env+"  }\n}\n", 1)
	for _, imported := range []bool{false, true} {
		writes := 0
		s, file := aside(t, func(s *clienttest.Server) {
			colouredServer(false)(s)
			leads := s.OnApply
			s.OnApply = func(g *clienttest.Group) {
				leads(g)
				writes++
			}
		})
		f := newFolder(t, program).of(file)
		f.write("main.tf", block)
		f.must("apply", "-auto-approve")
		storedSettings(t, s, "the block", stored)
		if imported {
			f.must("state", "rm", "cadre_group.web")
			f.must("import", "cadre_group.web", "web")
		}
		writes = 0
		f.write("main.tf", coloured(slotOne("one", "  "+env)))
		f.must("apply", "-auto-approve")
		storedSettings(t, s, "the resource", stored)
		if want := map[bool]int{false: 2, true: 0}[imported]; writes != want {
			t.Errorf("imported %v: the spec was written %d times, want %d", imported, writes, want)
		}
		wants(t, "after it", f.must("plan"), "No changes")
	}
}
