package command

import (
	"strings"
	"testing"

	"cadre.dev/client/clienttest"
	"cadre.dev/core/operation"
)

// A stop prints its effect first, and needs a confirmation. A start is the same edit back.
func TestR147_AStopPrintsItsEffectFirst(t *testing.T) {
	b := newBench(t)
	b.OnApply = lead(operation.Complete, "")
	if code, out := b.run("group", "stop", "worker", "--yes"); code != ExitNotFound {
		t.Errorf("no group: exit %d: %s", code, out)
	}
	if code, _ := b.run("group", "apply", b.file("a", "30")); code != ExitOK {
		t.Fatal("apply")
	}
	if code, out := b.run("group", "stop", "worker"); code != ExitUsage || !strings.Contains(out, "repeat with --confirm worker") {
		t.Errorf("unsure: exit %d: %s", code, out)
	}
	if code, out := b.run("group", "stop", "worker", "--reason", "no tests at night", "--confirm", "worker", "--wait"); code != ExitOK || !strings.Contains(out, "stopped with its disk") {
		t.Errorf("stop: exit %d: %s", code, out)
	}
	b.Set("worker", func(g *clienttest.Group) {
		if g.AppliedReason != "no tests at night" {
			t.Errorf("the reason of the stop: %q", g.AppliedReason)
		}
	})
	if code, out := b.run("group", "start", "worker"); code != ExitOK || !strings.Contains(out, "stopped") {
		t.Errorf("start: exit %d: %s", code, out)
	}
}
