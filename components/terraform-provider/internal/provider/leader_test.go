package provider_test

import (
	"slices"
	"testing"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// led makes web-0 lead a group whose slots wait to be asked for: it is held until all others
// are at the target.
func led(s *clienttest.Server, asked *[]string) {
	replan := func(g *clienttest.Group) {
		g.Plan = rollout.Plan{}
		old := slices.DeleteFunc(slices.Clone(g.Status.Instances), func(i group.InstanceStatus) bool { return i.Observed == g.Status.Target })
		for _, i := range old {
			a := rollout.Action{Slot: i.Slot, Holds: []rollout.Hold{{Predicate: rollout.HoldOpportunistic, Message: "restart the slot"}}}
			if i.Slot == "web-0" && len(old) > 1 {
				a.Holds = append(a.Holds, rollout.Hold{Predicate: rollout.HoldLeaderLast, Message: "web-0 leads and goes last"})
			}
			g.Plan.Actions = append(g.Plan.Actions, a)
		}
	}
	arrived(s)
	leads := s.OnApply
	s.OnApply = func(g *clienttest.Group) {
		before := g.Status
		leads(g)
		if g.Status.Instances = before.Instances; before.Instances == nil {
			for n := range g.Spec.Replicas {
				g.Status.Instances = append(g.Status.Instances, group.InstanceStatus{Slot: group.SlotName("web", n), Ordinal: n, State: client.StateAvailable, Observed: g.Status.Target})
			}
		}
		replan(g)
	}
	s.OnUpdate = func(g *clienttest.Group, slot string) {
		*asked = append(*asked, slot)
		for n := range g.Status.Instances {
			if g.Status.Instances[n].Slot == slot {
				g.Status.Instances[n].Observed = g.Status.Target
			}
		}
		replan(g)
	}
}

// In an apply of all slots the leading one goes last, in any order of Terraform. Requested alone,
// before the others, it is refused.
func TestASlotThatLeadsGoesAfterTheOthersOfTheRun(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	var asked []string
	s, file := aside(t, func(s *clienttest.Server) { led(s, &asked) })
	f := newFolder(t, program).of(file)
	f.write("main.tf", groupOf("one", 3, opportunistic)+instances)
	f.must("apply", "-auto-approve")
	f.write("main.tf", groupOf("two", 3, opportunistic)+instances)
	out, ok := f.run("apply", "-auto-approve", `-target=cadre_instance.web["0"]`)
	// Set holds the lock that OnUpdate runs under.
	in := func(what string, want func() bool) {
		t.Helper()
		s.Set("web", func(*clienttest.Group) {
			if !want() {
				t.Errorf("%s: they were asked for in the order %v", what, asked)
			}
		})
	}
	if wants(t, "the leader alone", out, "leader_last: web-0 leads and goes last"); ok {
		t.Error("the leader went first")
	}
	in("the leader alone", func() bool { return len(asked) == 0 })
	f.must("apply", "-auto-approve")
	in("all", func() bool { return len(asked) == 3 && asked[2] == "web-0" })
}
