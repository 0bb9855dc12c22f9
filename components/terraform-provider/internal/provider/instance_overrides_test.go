package provider_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
)

// overrideServer has one group web with two slots that are available, and whose pins are obeyed at once.
func overrideServer(s *clienttest.Server) {
	s.OverridesNow = true
	arrived(s)
	leads := s.OnApply
	s.OnApply = func(g *clienttest.Group) {
		leads(g)
		g.Status.Instances = nil
		for n := range g.Spec.Replicas {
			runs := g.Status.Target
			if pin := g.Spec.Instance(n).PinnedRevision; pin != "" {
				runs = pin
			}
			g.Status.Instances = append(g.Status.Instances, group.InstanceStatus{Slot: group.SlotName("web", n), Ordinal: n, State: client.StateAvailable, Observed: runs, InstanceID: "i", VIP: "127.32.0.1"})
		}
	}
}

func overriddenSlot(body string) string {
	return groupOf("one", 2, quick) + "\nresource \"cadre_instance\" \"one\" {\n  group   = cadre_group.web.name\n  ordinal = 1\n" + body + "}\n"
}

// active returns the present overrides as text.
func active(s *clienttest.Server) string {
	var out []string
	for _, m := range s.ActiveOverrides() {
		kind := strings.ToLower(strings.TrimPrefix(m.GetKind().String(), "OVERRIDE_KIND_"))
		end := "taken back"
		if m.GetUntil() != nil {
			end = "a time"
		}
		from := ""
		if len(m.GetFrom()) == 1 {
			from = " (" + m.GetFrom()[0] + ")"
		}
		out = append(out, fmt.Sprintf("%s %s: %s%s until %s", kind, m.GetName(), m.GetReason(), from, end))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func stands(t *testing.T, s *clienttest.Server, what, want string) {
	t.Helper()
	if got := active(s); got != want {
		t.Errorf("%s: %q stands, want %q", what, got, want)
	}
}

// Blocks of a slot with overrides until they are taken out.
const (
	itsHost   = "  drain {\n    reason = \"its host gets memory\"\n  }\n"
	aCopyRuns = "  protect {\n    reason = \"a copy runs\"\n  }\n"
)

// byHand is another client of the same cluster.
func byHand(t *testing.T, s *clienttest.Server) *client.Client {
	t.Helper()
	cl, err := client.Dial(s.Context(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

func TestASlotIsDrained(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	later := time.Now().Add(3 * time.Hour).UTC().Format(time.RFC3339)
	drain := "  drain {\n    reason = \"its host gets memory\"\n    until  = \"" + later + "\"\n  }\n"
	f.write("main.tf", overriddenSlot(drain))
	f.must("apply", "-auto-approve")
	stands(t, s, "applied", "drain web-1: its host gets memory until a time")
	wants(t, "after it", f.must("plan"), "No changes")

	if _, err := byHand(t, s).ClearOverride(t.Context(), client.OverrideDrain, "web-1"); err != nil {
		t.Fatal(err)
	}
	wants(t, "taken back by hand", f.must("plan"), "+ drain {")
	f.must("apply", "-auto-approve")
	stands(t, s, "put back", "drain web-1: its host gets memory until a time")
	f.must("destroy", "-auto-approve", "-target=cadre_instance.one")
	stands(t, s, "destroyed", "")
}

// An override may go with its slot: nothing is left to remove there, and the other overrides are
// removed.
func TestAnOverrideOfASlotThatIsGoneIsLetGo(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	f.write("main.tf", overriddenSlot(aCopyRuns))
	f.must("apply", "-auto-approve")
	s.Fail("ClearOverride", status.Error(codes.NotFound, "no such slot: web-1"))
	f.write("main.tf", overriddenSlot(""))
	f.must("apply", "-auto-approve")
}

func TestASlotIsProtected(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	f.write("main.tf", overriddenSlot(aCopyRuns))
	f.must("apply", "-auto-approve")
	stands(t, s, "applied", "protect web-1: a copy runs until taken back")

	if _, err := byHand(t, s).SetOverride(t.Context(), client.OverrideProtect, "web-1", 0, "mine"); err != nil {
		t.Fatal(err)
	}
	wants(t, "another reason by hand", f.must("plan"), `"mine" -> "a copy runs"`)
	f.must("apply", "-auto-approve")
	stands(t, s, "put back", "protect web-1: a copy runs until taken back")
	f.write("main.tf", overriddenSlot(""))
	f.must("apply", "-auto-approve")
	stands(t, s, "taken out", "")
}

// An exclusion covers its listed activities, may exist with another override, and excludes settings
// that move the slot.
func TestASlotIsExcluded(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	exclude := func(from string) string { return "  exclude {\n" + from + "    reason = \"it is measured\"\n  }\n" }
	f.write("main.tf", overriddenSlot(exclude("")))
	f.must("apply", "-auto-approve")
	stands(t, s, "from all", "exclude web-1: it is measured until taken back")
	wants(t, "after it", f.must("plan"), "No changes")
	f.write("main.tf", overriddenSlot(exclude("    from = [\"healing\", \"rollout\"]\n")))
	f.must("apply", "-auto-approve")
	wants(t, "the same in other words", f.must("plan"), "No changes")
	f.write("main.tf", overriddenSlot(exclude("    from = [\"healing\"]\n")+aCopyRuns))
	f.must("apply", "-auto-approve")
	stands(t, s, "from healing", "exclude web-1: it is measured (healing) until taken back; protect web-1: a copy runs until taken back")

	if _, err := byHand(t, s).SetOverride(t.Context(), client.OverrideExclude, "web-1", 0, "it is measured", group.FromRollout); err != nil {
		t.Fatal(err)
	}
	wants(t, "from other things by hand", f.must("plan"), `- "rollout"`, `+ "healing"`)
	f.must("apply", "-auto-approve")
	stands(t, s, "put back", "exclude web-1: it is measured (healing) until taken back; protect web-1: a copy runs until taken back")
	pin := strings.Repeat("ab", 16)
	for body, want := range map[string]string{
		exclude("    from = [\"rollouts\"]\n"):                                          `"rollouts": name rollout, healing or both`,
		exclude("") + "  revision = \"" + pin + "\"\n":                                  "revision and exclude are both set",
		exclude("    from = [\"rollout\"]\n") + "  pinned_revision = \"" + pin + "\"\n": "pinned_revision and exclude are both set",
	} {
		f.write("main.tf", overriddenSlot(body))
		if out, ok := f.run("validate"); ok || !strings.Contains(out, want) {
			t.Errorf("%s: valid %t: %s", body, ok, out)
		}
	}
	f.write("main.tf", overriddenSlot(exclude("    from = [\"healing\"]\n")+"  pinned_revision = \""+pin+"\"\n"))
	f.must("validate")
	f.write("main.tf", overriddenSlot(""))
	f.must("apply", "-auto-approve")
	stands(t, s, "taken out", "")

	if _, err := byHand(t, s).SetOverride(t.Context(), client.OverrideExclude, "web-1", 0, "mine", group.FromHealing); err != nil {
		t.Fatal(err)
	}
	f.must("state", "rm", "cadre_instance.one")
	f.must("import", "cadre_instance.one", "web-1")
	wants(t, "what was imported", f.must("state", "show", "cadre_instance.one"), "exclude", `"healing"`, "mine")
}

// A protection holds a drain: one gives way before the other is set.
func TestADrainAndAProtectionTakeTurns(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	for _, one := range []struct{ body, stands string }{
		{aCopyRuns, "protect web-1: a copy runs until taken back"},
		{itsHost, "drain web-1: its host gets memory until taken back"},
		{aCopyRuns, "protect web-1: a copy runs until taken back"},
	} {
		f.write("main.tf", overriddenSlot(one.body))
		f.must("apply", "-auto-approve")
		stands(t, s, "applied", one.stands)
		wants(t, "after it", f.must("plan"), "No changes")
	}
}

// An import reads both overrides, and the configuration decides which one stays.
func TestBothOverridesAreImported(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	f.write("main.tf", groupOf("one", 2, quick))
	f.must("apply", "-auto-approve")
	cl := byHand(t, s)
	for _, m := range []struct {
		kind   client.OverrideKind
		reason string
	}{{client.OverrideProtect, "a copy runs"}, {client.OverrideDrain, "its host gets memory"}} {
		if _, err := cl.SetOverride(t.Context(), m.kind, "web-1", 0, m.reason); err != nil {
			t.Fatal(err)
		}
	}
	f.write("main.tf", overriddenSlot(itsHost))
	f.must("import", "cadre_instance.one", "web-1")
	wants(t, "what was imported", f.must("state", "show", "cadre_instance.one"), "its host gets memory", "a copy runs")
	wants(t, "a plan", f.must("plan"), "- protect {")
	f.must("apply", "-auto-approve")
	stands(t, s, "applied", "drain web-1: its host gets memory until taken back")
}

// The leader holds the drain of a protected slot, and an apply would wait for it in vain.
func TestADrainBesideAProtectionIsRefused(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	f.write("main.tf", overriddenSlot(itsHost+aCopyRuns))
	out, ok := f.run("validate")
	if wants(t, "both", out, "drain and protect are both set", "Take one of them out"); ok {
		t.Error("it is valid")
	}

	// A block that is not known yet may be none; it is refused as soon as it is known.
	maybe := func(kept string) string {
		return "variable \"kept\" { type = bool }\nresource \"terraform_data\" \"kept\" { input = var.kept }\n" + overriddenSlot(itsHost+`  dynamic "protect" {
    for_each = `+kept+` ? [1] : []
    content { reason = "a copy runs" }
  }
`)
	}
	f.write("main.tf", maybe("var.kept"))
	f.must("validate")
	for _, run := range []struct {
		kept string
		args []string
	}{
		{"var.kept", []string{"plan", "-var=kept=true"}},
		{"terraform_data.kept.output", []string{"apply", "-auto-approve", "-var=kept=true"}},
	} {
		f.write("main.tf", maybe(run.kept))
		out, ok = f.run(run.args...)
		if wants(t, run.args[0], out, "drain and protect are both set"); ok {
			t.Errorf("%s goes through", run.args[0])
		}
		stands(t, s, run.args[0], "")
	}
	f.write("main.tf", maybe("var.kept"))
	f.must("apply", "-auto-approve", "-var=kept=false")
	stands(t, s, "only one of them", "drain web-1: its host gets memory until taken back")
}

// Overrides that this configuration does not set stay with their owners.
func TestOverridesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	f.write("main.tf", overriddenSlot("  metadata = { a = \"b\" }\n"))
	f.must("apply", "-auto-approve")
	if _, err := byHand(t, s).SetOverride(t.Context(), client.OverrideProtect, "web-1", 0, "mine"); err != nil {
		t.Fatal(err)
	}
	wants(t, "beside it", f.must("plan"), "No changes")
	f.must("destroy", "-auto-approve", "-target=cadre_instance.one")
	if got := active(s); got != "protect web-1: mine until taken back" {
		t.Errorf("left: %q", got)
	}
}

// An override whose time is over shows, and is not set again.
func TestAnOverrideThatIsOverShows(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	f.write("main.tf", overriddenSlot("  protect {\n    reason = \"a copy runs\"\n    until  = \""+later+"\"\n  }\n"))
	f.must("apply", "-auto-approve")
	s.EndOverrides()
	wants(t, "it is gone", f.must("plan"), "+ protect {")
	over := "  protect {\n    reason = \"a copy runs\"\n    until  = \"2026-01-02T03:04:05Z\"\n  }\n"
	f.write("main.tf", overriddenSlot(over))
	out, ok := f.run("plan")
	if wants(t, "its time is over", out, "The protect of slot web-1 is over", "Take the block out, or give it more time"); ok {
		t.Error("it is planned")
	}
	for body, want := range map[string]string{
		"  drain {\n    until = \"2026-01-02T03:04:05Z\"\n  }\n":         "A drain without a reason",
		"  drain {\n    reason = \"a\"\n    until = \"tomorrow\"\n  }\n": `"tomorrow" is no time`,
	} {
		f.write("main.tf", overriddenSlot(body))
		if out, ok := f.run("validate"); ok || !strings.Contains(out, want) {
			t.Errorf("%s: valid %t: %s", body, ok, out)
		}
	}
	f.write("main.tf", overriddenSlot(""))
	f.must("apply", "-auto-approve")
	wants(t, "taken out", f.must("plan"), "No changes")
}

func TestASlotIsPinned(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	pin := strings.Repeat("ab", 16)
	f.write("main.tf", overriddenSlot("  pinned_revision = \""+pin+"\"\n"))
	f.must("apply", "-auto-approve")
	stored := func(what, want string) {
		t.Helper()
		s.Set("web", func(g *clienttest.Group) {
			if got := g.Spec.Instance(1).PinnedRevision; got != want {
				t.Errorf("%s: pinned to %q, want %q", what, got, want)
			}
		})
	}
	stored("applied", pin)
	wants(t, "its state", f.must("state", "show", "cadre_instance.one"), `revision`, pin)
	wants(t, "after it", f.must("plan"), "No changes")
	s.Set("web", func(g *clienttest.Group) {
		g.Spec.Instances[0].PinnedRevision = strings.Repeat("cd", 16)
		g.Index++
		g.Status.ObservedIndex = g.Index
	})
	wants(t, "a change by hand", f.must("plan"), `-> "`+pin+`"`)
	f.must("apply", "-auto-approve")
	stored("put back", pin)
	f.must("destroy", "-auto-approve", "-target=cadre_instance.one")
	stored("destroyed", "")
	for body, want := range map[string]string{
		"  pinned_revision = \"abc\"\n":                                        "is no revision",
		"  pinned_revision = \"" + pin + "\"\n  revision = \"" + pin + "\"\n":  "pinned_revision and revision are both set",
		"  pinned_revision = \"" + pin + "\"\n  exclude_from_rollout = true\n": "pinned_revision and exclude_from_rollout are both set",
	} {
		f.write("main.tf", overriddenSlot(body))
		if out, ok := f.run("validate"); ok || !strings.Contains(out, want) {
			t.Errorf("%s: valid %t: %s", body, ok, out)
		}
	}
}
