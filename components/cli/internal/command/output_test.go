package command

import (
	"strings"
	"testing"
)

// Only the list of instances has a wide form; elsewhere -o wide is refused with the known forms.
func TestTheFormsOfTheOutput(t *testing.T) {
	b := provenBench(t)
	b.Set("worker", midRollout)
	if code, out := b.run("instance", "list", "-o", "wide"); code != ExitOK || !strings.Contains(out, "NODE") || !strings.Contains(out, "prod7") || !strings.Contains(out, "eu-west") {
		t.Errorf("the wide list lacks the places:\n%s", out)
	}
	if code, out := b.run("instance", "list"); code != ExitOK || strings.Contains(out, "NODE") {
		t.Errorf("the plain list has the places:\n%s", out)
	}
	for _, args := range [][]string{{"group", "list", "-o", "wide"}, {"instance", "describe", "worker-0", "-o", "wide"}} {
		if code, out := b.run(args...); code != ExitUsage || !strings.Contains(out, "-o wide: the only other form is json") {
			t.Errorf("%v: %s", args, out)
		}
	}
	if code, out := b.run("instance", "list", "-o", "yaml"); code != ExitUsage || !strings.Contains(out, "-o yaml: the other forms are json and wide") {
		t.Errorf("yaml: %s", out)
	}
}
