package command

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
)

func TestOverridePictures(t *testing.T) {
	b := newBench(t)
	b.Set("worker", func(g *clienttest.Group) { midRollout(g) })
	for _, c := range []struct {
		name string
		args []string
	}{
		{"instance_drain_help", []string{"instance", "drain", "--help"}},
		{"instance_drain", []string{"instance", "drain", "worker-1", "--for", "2h", "--reason", "its host gets memory"}},
		{"instance_protect", []string{"instance", "protect", "worker-0", "--reason", "a report reads from it"}},
		{"instance_exclude_help", []string{"instance", "exclude", "--help"}},
		{"instance_exclude", []string{"instance", "exclude", "worker-0", "--from", "healing", "--until", "2026-05-04T20:00:00Z", "--reason", "a crash of it is looked into"}},
		{"instance_exclude_both", []string{"instance", "exclude", "worker-1", "--reason", "it is measured"}},
		{"freeze", []string{"freeze", "--for", "72h", "--reason", "the big days"}},
		{"freeze_group", []string{"freeze", "worker", "--reason", "we look into the lag"}},
		{"overrides", []string{"overrides"}},
		{"instance_undrain", []string{"instance", "undrain", "worker-1"}},
		{"instance_unprotect", []string{"instance", "unprotect", "worker-1"}},
		{"instance_include", []string{"instance", "include", "worker-0"}},
		{"unfreeze", []string{"unfreeze"}},
		{"overrides_left", []string{"overrides", "-o", "json"}},
	} {
		code, out := b.run(c.args...)
		if code != ExitOK {
			t.Errorf("%s: exit %d", c.name, code)
		}
		golden(t, c.name, out)
	}
}

func TestAnOverrideNeedsAReason(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{
		{"instance", "drain", "worker-1"}, {"instance", "drain", "--reason", "x"}, {"instance", "protect", "worker-1", "--reason", " "},
		{"freeze"}, {"freeze", "worker", "other", "--reason", "x"}, {"freeze", "worker", "--reason", "x", "--for", "-1h"},
		{"instance", "exclude", "worker-1"}, {"instance", "drain", "worker-1", "--reason", "x", "--from", "healing"},
		{"freeze", "--reason", "x", "--until", "tomorrow"}, {"freeze", "--reason", "x", "--until", "2020-01-01T00:00:00Z"}, {"freeze", "--reason", "x", "--until", "2126-01-01T00:00:00Z", "--for", "1h"},
	} {
		if code, out := b.run(args...); code != ExitUsage {
			t.Errorf("%v: exit %d: %s", args, code, out)
		}
	}
}

// A removal for an unknown name is an error; a removal of a missing override reports that.
func TestAnOverrideOnNothingIsNotTakenBack(t *testing.T) {
	b := newBench(t)
	b.Set("worker", func(g *clienttest.Group) { midRollout(g) })
	for _, c := range []struct {
		want int
		args []string
		says string
	}{
		{ExitOK, []string{"instance", "undrain", "worker-1"}, "was not drained"},
		{ExitOK, []string{"unfreeze", "worker"}, "was not frozen"},
		{ExitOK, []string{"unfreeze"}, "was not frozen"},
		{ExitNotFound, []string{"instance", "undrain", "worker-77"}, "no such slot"},
		{ExitNotFound, []string{"instance", "unprotect", "wroker-1"}, "no such slot"},
		{ExitNotFound, []string{"instance", "include", "wroker-1"}, "no such slot"},
		{ExitNotFound, []string{"unfreeze", "wroker"}, "no such"},
	} {
		if code, out := b.run(c.args...); code != c.want || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit %d: %s", c.args, code, out)
		}
	}
}

// Every view of an excluded slot shows the exclusion, with reason and end.
func TestEveryViewShowsAnExclusion(t *testing.T) {
	b := newBench(t)
	b.Set("worker", func(g *clienttest.Group) {
		midRollout(g)
		g.Status.Instances[0].Exclusion = &group.Override{From: []string{"rollout", "healing"}, Reason: "it is measured", By: "ann", Until: noon.Add(time.Hour)}
	})
	until := noon.Add(time.Hour).Local().Format("2006-01-02 15:04:05")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"from rollout and healing until " + until + ", by ann: it is measured", []string{"instance", "describe", "worker-0"}},
		{"excluded from rollout and healing until " + until + " (ann): it is measured", []string{"instance", "list", "worker"}},
		{"excluded from rollout and healing until " + until + " (ann): it is measured", []string{"rollout", "status", "worker"}},
	} {
		if code, out := b.run(c.args...); code != ExitOK || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit %d: %s", c.args, code, out)
		}
	}
}

// An exclusion of the spec stays when the override ends, and the command that removes the override
// says so.
func TestAnExclusionOfTheSpecOutlivesTheOverride(t *testing.T) {
	b := newBench(t)
	b.Set("worker", func(g *clienttest.Group) {
		midRollout(g)
		g.Spec.Instances = []group.InstanceSettings{{Ordinal: 0, ExcludeFromHealing: true}, {Ordinal: 1, ExcludeFromRollout: true, ExcludeFromHealing: true}}
	})
	if code, out := b.run("instance", "exclude", "worker-0", "--reason", "it is measured"); code != ExitOK {
		t.Fatalf("exit %d: %s", code, out)
	}
	for slot, want := range map[string]string{
		"worker-0": "worker-0 is excluded by no operator any more; the spec of worker leaves it out all the same: exclude_from_healing of its instance block\n",
		"worker-1": "worker-1 was not excluded: nothing is changed; the spec of worker leaves it out all the same: exclude_from_rollout and exclude_from_healing of its instance block\n",
		"worker-2": "worker-2 was not excluded: nothing is changed\n",
	} {
		if code, out := b.run("instance", "include", slot); code != ExitOK || !strings.HasSuffix(out, want) {
			t.Errorf("%s: exit %d: %s", slot, code, out)
		}
	}
}

// A wait for a drain reports the hold.
func TestADrainThatIsNotDoneSaysWhy(t *testing.T) {
	override := &group.Override{Reason: "its host gets memory"}
	for want, i := range map[string]group.InstanceStatus{
		"": {State: "Drained", Drain: override},
		"max_unavailable: max_unavailable is 1 and worker-1 is not available": {State: "Booting", Drain: override, Holds: []group.Hold{{Predicate: "max_unavailable", Message: "max_unavailable is 1 and worker-1 is not available"}}},
		"Available": {State: "Available", Drain: override},
		"the leader has not seen it yet, or it was taken back": {State: "Drained"}, // by a rollout
		"NotDrained: leads, and nobody can take over":          {State: "NotDrained", Reason: "leads, and nobody can take over", Drain: override},
	} {
		if got := notDrained(i); got != want {
			t.Errorf("%+v: %q, want %q", i, got, want)
		}
	}
}

// A wait for a drain reports its end, or the timeout.
func TestADrainIsWaitedFor(t *testing.T) {
	b := newBench(t)
	b.Set("worker", func(g *clienttest.Group) {
		midRollout(g)
		g.Status.Instances[0].Drain = &group.Override{Reason: "its host gets memory"}
		g.Status.Instances[0].Holds = []group.Hold{{Predicate: "max_unavailable", Message: "max_unavailable is 1 and worker-1 is not available"}}
	})
	drain := []string{"instance", "drain", "worker-0", "--reason", "its host gets memory", "--wait", "--timeout"}
	if code, out := b.run(append(drain, "0s")...); code != ExitTimeout || !strings.HasSuffix(out, "drain worker-0: not done after 0s (no coordinator answered); the drain continues\n") {
		t.Errorf("the time is up: exit %d: %s", code, out)
	}
	if _, out := b.run("instance", "describe", "worker-0"); !strings.Contains(out, "held by            max_unavailable: max_unavailable is 1 and") {
		t.Errorf("shown: %s", out)
	}
	b.Set("worker", func(g *clienttest.Group) {
		g.Status.Instances[0].State, g.Status.Instances[0].Holds = "Drained", nil
	})
	if code, out := b.run(append(drain, "10s")...); code != ExitOK || !strings.HasSuffix(out, "worker-0 is drained\n") {
		t.Errorf("drained: exit %d: %s", code, out)
	}
	if code, out := b.run("instance", "describe", "worker-0"); code != ExitOK || !strings.Contains(out, "out of service") || !strings.Contains(out, "its host gets memory") {
		t.Errorf("describe: exit %d: %s", code, out)
	}
}

// TestAPauseNeedsNoReason: a pause takes an end like every override, and ends once.
func TestAPauseNeedsNoReason(t *testing.T) {
	b := newBench(t)
	b.Set("worker", midRollout)
	for _, c := range []struct{ args, want string }{
		{"rollout pause worker", "rollout of worker is paused until an operator ends it: "},
		{"rollout pause worker --for 2h", "rollout of worker is paused until 2026-"},
		{"rollout resume worker", "rollout of worker resumes; "},
		{"rollout resume worker", "worker was not paused: nothing is changed"},
	} {
		if code, out := b.run(strings.Fields(c.args)...); code != ExitOK || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit %d: %s", c.args, code, out)
		}
	}
}
