package provider_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
)

// markedServer has one group web with two slots that are available, and whose pins are obeyed at once.
func markedServer(s *clienttest.Server) {
	s.MarksNow = true
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

func markedSlot(body string) string {
	return groupOf("one", 2, quick) + "\nresource \"cadre_instance\" \"one\" {\n  group   = cadre_group.web.name\n  ordinal = 1\n" + body + "}\n"
}

// standing are the marks that stand, as text.
func standing(s *clienttest.Server) string {
	var out []string
	for _, m := range s.StandingMarks() {
		kind := strings.ToLower(strings.TrimPrefix(m.GetKind().String(), "MARK_KIND_"))
		end := "taken back"
		if m.GetUntil() != nil {
			end = "a time"
		}
		out = append(out, fmt.Sprintf("%s %s: %s until %s", kind, m.GetName(), m.GetReason(), end))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

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

func TestASlotIsDrainedAndProtected(t *testing.T) {
	program := tofu(t)
	s, _ := aside(t, markedServer)
	f := newFolder(t, program)
	stands := func(what, want string) {
		t.Helper()
		if got := standing(s); got != want {
			t.Errorf("%s: %q stands, want %q", what, got, want)
		}
	}
	later := time.Now().Add(3 * time.Hour).UTC().Format(time.RFC3339)
	drain := "  drain {\n    reason = \"its host gets memory\"\n    until  = \"" + later + "\"\n  }\n"
	protect := "  protect {\n    reason = \"a copy runs\"\n  }\n"

	f.write("main.tf", markedSlot(drain+protect))
	f.must("apply", "-auto-approve")
	stands("applied", "drain web-1: its host gets memory until a time; protect web-1: a copy runs until taken back")
	wants(t, "after it", f.must("plan"), "No changes")

	// Another hand gives the protection another reason, and takes the drain back.
	cl := byHand(t, s)
	if _, err := cl.Mark(t.Context(), client.MarkProtect, "web-1", 0, "mine"); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Unmark(t.Context(), client.MarkDrain, "web-1"); err != nil {
		t.Fatal(err)
	}
	wants(t, "a change by hand", f.must("plan"), `"mine" -> "a copy runs"`, "+ drain {")
	f.must("apply", "-auto-approve")
	stands("put back", "drain web-1: its host gets memory until a time; protect web-1: a copy runs until taken back")

	// An import takes over what stands.
	other := newFolder(t, program)
	other.write("main.tf", markedSlot(drain+protect))
	other.must("import", "cadre_group.web", "web")
	other.must("import", "cadre_instance.one", "web-1")
	wants(t, "what was imported", other.must("state", "show", "cadre_instance.one"), "its host gets memory", "a copy runs")

	f.write("main.tf", markedSlot(protect))
	f.must("apply", "-auto-approve")
	stands("the drain is taken out", "protect web-1: a copy runs until taken back")
	f.must("destroy", "-auto-approve", "-target=cadre_instance.one")
	stands("destroyed", "")
}

// What nobody said here is left to the hands that set it.
func TestMarksOfOthersAreLeftAlone(t *testing.T) {
	program := tofu(t)
	s, _ := aside(t, markedServer)
	f := newFolder(t, program)
	f.write("main.tf", markedSlot("  metadata = { a = \"b\" }\n"))
	f.must("apply", "-auto-approve")
	if _, err := byHand(t, s).Mark(t.Context(), client.MarkProtect, "web-1", 0, "mine"); err != nil {
		t.Fatal(err)
	}
	wants(t, "beside it", f.must("plan"), "No changes")
	f.must("destroy", "-auto-approve", "-target=cadre_instance.one")
	if got := standing(s); got != "protect web-1: mine until taken back" {
		t.Errorf("left: %q", got)
	}
}

// A mark whose time is over shows, and is not set again.
func TestAMarkThatIsOverShows(t *testing.T) {
	program := tofu(t)
	s, _ := aside(t, markedServer)
	f := newFolder(t, program)
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	f.write("main.tf", markedSlot("  protect {\n    reason = \"a copy runs\"\n    until  = \""+later+"\"\n  }\n"))
	f.must("apply", "-auto-approve")
	s.EndMarks()
	wants(t, "it is gone", f.must("plan"), "+ protect {")
	over := "  protect {\n    reason = \"a copy runs\"\n    until  = \"2026-01-02T03:04:05Z\"\n  }\n"
	f.write("main.tf", markedSlot(over))
	out, ok := f.run("plan")
	if wants(t, "its time is over", out, "The protect of slot web-1 is over", "Take the block out, or give it more time"); ok {
		t.Error("it is planned")
	}
	for body, want := range map[string]string{
		"  drain {\n    until = \"2026-01-02T03:04:05Z\"\n  }\n":         "A drain without a reason",
		"  drain {\n    reason = \"a\"\n    until = \"tomorrow\"\n  }\n": `"tomorrow" is no time`,
	} {
		f.write("main.tf", markedSlot(body))
		if out, ok := f.run("validate"); ok || !strings.Contains(out, want) {
			t.Errorf("%s: valid %t: %s", body, ok, out)
		}
	}
	f.write("main.tf", markedSlot(""))
	f.must("apply", "-auto-approve")
	wants(t, "taken out", f.must("plan"), "No changes")
}

func TestASlotIsPinned(t *testing.T) {
	program := tofu(t)
	s, _ := aside(t, markedServer)
	f := newFolder(t, program)
	pin := strings.Repeat("ab", 16)
	f.write("main.tf", markedSlot("  pinned_revision = \""+pin+"\"\n"))
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
		f.write("main.tf", markedSlot(body))
		if out, ok := f.run("validate"); ok || !strings.Contains(out, want) {
			t.Errorf("%s: valid %t: %s", body, ok, out)
		}
	}
}
