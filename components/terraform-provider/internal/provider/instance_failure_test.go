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

// stuck is a group web whose slots take neither pins nor env of their own before it obeys.
type stuck struct {
	obeys bool         // guarded by the server's lock
	holds rollout.Hold // of each step for env
}

func (k *stuck) look(g *clienttest.Group) {
	g.Status.Instances, g.Plan.Actions = nil, nil
	for n := range g.Spec.Replicas {
		own := g.Spec.Instance(n)
		i := group.InstanceStatus{Slot: group.SlotName("web", n), Ordinal: n, State: client.StateAvailable, Observed: g.Status.Target, InstanceID: "i", VIP: "127.32.0.1"}
		if k.obeys && own.PinnedRevision != "" {
			i.Observed = own.PinnedRevision
		}
		switch {
		case len(own.Env) == 0:
		case k.obeys:
			i.OwnEnv = group.OwnApplied
		default:
			i.OwnEnv = group.OwnUnapplied
			g.Plan.Actions = append(g.Plan.Actions, rollout.Action{Slot: i.Slot, Kind: operation.Update, Way: operation.Way{Mode: operation.ModeOwn}, Holds: []rollout.Hold{k.holds}})
		}
		g.Status.Instances = append(g.Status.Instances, i)
	}
}

func (k *stuck) prepare(s *clienttest.Server) {
	s.OverridesNow = true
	arrived(s)
	leads := s.OnApply
	s.OnApply = func(g *clienttest.Group) {
		leads(g)
		k.look(g)
	}
}

func noQuorum() rollout.Hold {
	return rollout.Hold{Predicate: rollout.HoldQuorum, Message: "two of three are needed"}
}

// The settings of a failed update belong to the resource: removing them from the configuration
// removes them, and applying them again waits for them.
func TestSettingsOfAFailedUpdateAreRemoved(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	pin := strings.Repeat("ab", 16)
	const quickly = "  timeouts {\n    update = \"2s\"\n  }\n"
	for _, one := range []struct{ what, body, stored, stands string }{
		{"a pin", "  pinned_revision = \"" + pin + "\"\n", `[{"ordinal":1,"metadata":{"a":"b"},"pinned_revision":"` + pin + `"}]`, ""},
		{"env, and what is written with it", "  env = { COLOR = \"red\" }\n  exclude_from_healing = true\n  exclude_from_rollout = true\n", `[{"ordinal":1,"metadata":{"a":"b"},"env":{"COLOR":"red"},"exclude_from_rollout":true,"exclude_from_healing":true}]`, ""},
		{"a drain", itsHost, `[{"ordinal":1,"metadata":{"a":"b"}}]`, "drain web-1: its host gets memory until taken back"},
	} {
		t.Run(one.what, func(t *testing.T) {
			t.Parallel()
			k := &stuck{holds: noQuorum()}
			s, file := aside(t, k.prepare)
			f := newFolder(t, program).of(file)
			const before = "  metadata = { a = \"b\" }\n" + quickly
			f.write("main.tf", coloured(slotOne("one", before)))
			f.must("apply", "-auto-approve")
			by, hand := "", byHand(t, s)
			if one.stands != "" { // the leader holds the drain of a protected slot
				by = "; protect web-1: mine until taken back"
				if _, err := hand.SetOverride(t.Context(), client.OverrideProtect, "web-1", 0, "mine"); err != nil {
					t.Fatal(err)
				}
			}
			fails := func() {
				t.Helper()
				f.write("main.tf", coloured(slotOne("one", before+one.body)))
				if out, ok := f.run("apply", "-auto-approve"); ok {
					t.Errorf("it got there: %s", out)
				}
				storedSettings(t, s, "failed", one.stored)
				stands(t, s, "failed", strings.TrimPrefix(one.stands+by, "; "))
				wants(t, "the plan after it", f.must("plan"), "Slot web-1 is waited for again")
			}
			fails()
			f.write("main.tf", coloured(slotOne("one", before)))
			f.must("apply", "-auto-approve")
			storedSettings(t, s, "taken out", `[{"ordinal":1,"metadata":{"a":"b"}}]`)
			stands(t, s, "taken out", strings.TrimPrefix(by, "; "))
			wants(t, "taken out", f.must("plan"), "No changes")

			fails()
			if out, ok := f.run("apply", "-auto-approve"); ok {
				t.Errorf("nobody waited for it: %s", out)
			}
			s.Set("web", func(g *clienttest.Group) {
				k.obeys = true
				k.look(g)
			})
			if one.stands != "" {
				if _, err := hand.ClearOverride(t.Context(), client.OverrideProtect, "web-1"); err != nil {
					t.Fatal(err)
				}
			}
			f.must("apply", "-auto-approve")
			wants(t, "it got there", f.must("plan"), "No changes")
		})
	}
}

// A refused update wrote nothing, and the present settings still belong to another owner.
func TestSettingsThatAFailedUpdateDidNotWriteStay(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, (&stuck{holds: noQuorum()}).prepare)
	f := newFolder(t, program).of(file)
	f.write("main.tf", coloured(slotOne("one", "  metadata = { a = \"b\" }\n")))
	f.must("apply", "-auto-approve")
	if _, err := byHand(t, s).SetOverride(t.Context(), client.OverrideProtect, "web-1", 0, "mine"); err != nil {
		t.Fatal(err)
	}
	f.write("main.tf", coloured(slotOne("one", "  metadata = { a = \"b\" }\n  env = { COLOR = \"red\" }\n"+aCopyRuns)))
	if out, ok := f.run("apply", "-auto-approve"); ok {
		t.Errorf("it got there: %s", out)
	}
	f.write("main.tf", coloured(slotOne("one", "  metadata = { a = \"b\" }\n")))
	f.must("apply", "-auto-approve")
	stands(t, s, "taken out", "protect web-1: mine until taken back")
}

// A new resource that fails removes its own settings, and no settings of other owners.
func TestAFailedCreateTakesBackWhatItWrote(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	k := &stuck{holds: rollout.Hold{Predicate: rollout.HoldProtected, Message: "web-1 is protected by an operator: mine"}}
	s, file := aside(t, k.prepare)
	f := newFolder(t, program).of(file)
	f.write("main.tf", coloured(""))
	f.must("apply", "-auto-approve")
	hand := byHand(t, s)
	if _, err := hand.SetOverride(t.Context(), client.OverrideProtect, "web-1", 0, "mine"); err != nil {
		t.Fatal(err)
	}
	s.Set("web", func(g *clienttest.Group) {
		g.Spec.Instances = []group.InstanceSettings{{Ordinal: 1, Metadata: map[string]string{"a": "b"}}}
		g.Index++
		g.Status.ObservedIndex = g.Index
	})
	const theirs = `[{"ordinal":1,"metadata":{"a":"b"}}]`
	f.write("main.tf", coloured(slotOne("one", "  metadata = { a = \"b\" }\n  env = { COLOR = \"red\" }\n"+aCopyRuns)))
	out, ok := f.run("apply", "-auto-approve")
	if wants(t, "a slot that another hand protects", out, "protected"); ok {
		t.Error("it got there")
	}
	stands(t, s, "failed", "protect web-1: mine until taken back")
	storedSettings(t, s, "failed", theirs)

	// A drain that waited before is not called off.
	if _, err := hand.SetOverride(t.Context(), client.OverrideDrain, "web-1", 0, "mine"); err != nil {
		t.Fatal(err)
	}
	f.write("main.tf", coloured(slotOne("one", itsHost+"  timeouts {\n    create = \"2s\"\n  }\n")))
	if out, ok = f.run("apply", "-auto-approve"); ok || !strings.Contains(out, "it is not drained") {
		t.Errorf("a drain that is held: %s", out)
	}
	stands(t, s, "a drain that stood", "drain web-1: its host gets memory until taken back; protect web-1: mine until taken back")
	// A drain that the resource began belongs to the resource.
	if _, err := hand.ClearOverride(t.Context(), client.OverrideDrain, "web-1"); err != nil {
		t.Fatal(err)
	}
	if out, ok = f.run("apply", "-auto-approve"); ok {
		t.Errorf("a drain that is held: %s", out)
	}
	stands(t, s, "a drain of its own", "protect web-1: mine until taken back")
}

// A plan says which steps a resource makes that comes, changes or goes.
func TestAPlanListsTheStepsOfASlot(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	f.write("main.tf", coloured(slotOne("one", "  exclude_from_rollout = true\n")))
	f.must("apply", "-auto-approve")
	s.Set("web", func(g *clienttest.Group) { g.Status.Instances[1].Observed = strings.Repeat("ef", 16) })
	f.write("main.tf", coloured(slotOne("one", "")))
	wants(t, "an exclusion that ends", f.must("plan"), "Slot web-1 goes with its group again: revision efefefef -> ")
	for _, pin := range []string{strings.Repeat("ab", 16), strings.Repeat("cd", 16)} {
		f.write("main.tf", coloured(slotOne("one", "  pinned_revision = \""+pin+"\"\n")))
		wants(t, "a pin", f.must("plan"), "Slot web-1 is moved to a revision of its own: ", " -> "+pin[:8])
		f.must("apply", "-auto-approve")
	}
	wants(t, "a pin that stands", f.must("plan"), "No changes")
	f.write("main.tf", coloured(slotOne("one", "")))
	wants(t, "no pin", f.must("plan"), "Slot web-1 is not pinned any more")

	pinned := slotOne("one", "  pinned_revision = \""+strings.Repeat("cd", 16)+"\"\n  env = { COLOR = \"red\" }\n  exclude_from_healing = true\n"+aCopyRuns)
	f.write("main.tf", coloured(pinned))
	f.must("apply", "-auto-approve")
	ends := []string{"Slot web-1 is given back to its group", "env: it is restarted", "pinned_revision: it is moved back", "exclude_from_healing: it is healed", "protect: the protection's held steps"}
	f.write("main.tf", coloured(strings.Replace(pinned, "ordinal = 1", "ordinal = 0", 1)))
	wants(t, "another slot", f.must("plan"), ends...)
	f.write("main.tf", coloured(""))
	out := f.must("plan")
	wants(t, "a resource that goes", out, ends...)
	if strings.Contains(out, "drain: ") || strings.Contains(out, "exclude_from_rollout: ") {
		t.Errorf("of what it did not set: %s", out)
	}
}

// The error about a missing slot lists the existing ones.
func TestNoSuchSlotNamesTheWayOut(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	_, file := aside(t, func(s *clienttest.Server) {
		arrived(s)
		leads := s.OnApply
		s.OnApply = func(g *clienttest.Group) {
			leads(g)
			for _, n := range g.Spec.Ordinals()[:4] {
				g.Status.Instances = append(g.Status.Instances, group.InstanceStatus{Slot: group.SlotName("web", n), Ordinal: n, State: client.StateAvailable, Observed: g.Status.Target})
			}
		}
	})
	f := newFolder(t, program).of(file)
	web := groupOf("one", 5, quick+"  without = [\"web-1\"]\n")
	for ordinal, want := range map[string]string{
		"1": "its spec leaves it out. Take web-1 out of `without` of the group, or take this resource out.",
		"7": "its ordinals are 0, 2 to 5. Raise replicas of the group, or take this resource out.",
		"5": "it is to have it, and it is not made yet",
	} {
		f.write("main.tf", web+strings.Replace(slotOne("one", "  metadata = { a = \"b\" }\n"), "ordinal = 1", "ordinal = "+ordinal, 1))
		out, ok := f.run("apply", "-auto-approve")
		if wants(t, ordinal, out, "Group web has no slot of ordinal "+ordinal, want); ok {
			t.Errorf("%s: it was made", ordinal)
		}
	}
}
