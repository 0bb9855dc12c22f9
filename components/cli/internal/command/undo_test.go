package command

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/operation"
)

// An undo prints its effect first. It needs a confirmation, and does not overwrite a change in
// between.
func TestAnUndoPrintsItsEffectFirst(t *testing.T) {
	b := newBench(t)
	b.OnApply = lead(operation.Complete, "")
	if code, out := b.run("rollout", "undo", "worker", "--yes"); code != ExitNotFound {
		t.Errorf("no group: exit %d: %s", code, out)
	}
	if code, _ := b.run("group", "apply", b.file("a", "30")); code != ExitOK {
		t.Fatal("apply")
	}
	if code, out := b.run("rollout", "undo", "worker", "--yes"); code != ExitRefused || !strings.Contains(out, "no revision before") {
		t.Errorf("nothing before: exit %d: %s", code, out)
	}
	if code, _ := b.run("group", "apply", b.file("b", "30")); code != ExitOK {
		t.Fatal("apply")
	}
	code, out := b.run("rollout", "undo", "worker")
	if code != ExitUsage {
		t.Errorf("unsure: exit %d", code)
	}
	golden(t, "rollout_undo_unsure", out)
	if code, again := b.run("rollout", "undo", "worker", "--confirm", "other"); code != ExitUsage || again != out {
		t.Errorf("something was written: exit %d: %s", code, again)
	}
	b.Fail("ApplyGroup", status.Error(codes.Aborted, "SPEC_CONFLICT: somebody changed the spec"))
	if code, out := b.run("rollout", "undo", "worker", "--yes"); code != ExitRefused || !strings.Contains(out, "SPEC_CONFLICT") {
		t.Errorf("conflict: exit %d: %s", code, out)
	}
	b.Fail("ApplyGroup", nil)
	code, out = b.run("rollout", "undo", "worker", "--confirm", "worker", "--wait")
	if code != ExitOK {
		t.Errorf("undo: exit %d", code)
	}
	golden(t, "rollout_undo", out)
	code, out = b.run("rollout", "undo", "--help")
	if code != ExitOK {
		t.Errorf("help: exit %d", code)
	}
	golden(t, "rollout_undo_help", out)
}
