package command

import (
	"strings"
	"testing"

	"cadre.dev/client/clienttest"
)

func TestRolloutOverridePictures(t *testing.T) {
	b := newBench(t)
	b.Set("worker", func(g *clienttest.Group) { midRollout(g) })
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"rollout_override_help", ExitOK, []string{"rollout", "override", "--help"}},
		{"rollout_override", ExitOK, []string{"rollout", "override", "worker", "outside_window", "--for", "1h", "--reason", "the fix is urgent"}},
		{"rollout_override_risk", ExitOK, []string{"rollout", "override", "worker", "max_unavailable", "--for", "10m", "--reason", "nobody uses it now", "--confirm", "worker"}},
		{"rollout_override_wrong", ExitUsage, []string{"rollout", "override", "worker", "not_approved", "--for", "48h"}},
		{"rollout_override_unconfirmed", ExitUsage, []string{"rollout", "override", "worker", "may_disrupt", "--for", "1h", "--reason", "x", "--confirm", "yes"}},
		{"rollout_override_listed", ExitOK, []string{"overrides"}},
		{"rollout_override_clear", ExitOK, []string{"rollout", "override", "worker", "outside_window", "--clear"}},
		{"rollout_override_clear_again", ExitOK, []string{"rollout", "override", "worker", "outside_window", "--clear"}},
	} {
		code, out := b.run(c.args...)
		if code != c.code {
			t.Errorf("%s: exit %d, want %d", c.name, code, c.code)
		}
		golden(t, c.name, out)
	}
}

func TestAnOverrideOfAHoldIsClearedByItsNamesAlone(t *testing.T) {
	b := newBench(t)
	b.Set("worker", func(g *clienttest.Group) { midRollout(g) })
	for _, args := range [][]string{
		{"rollout", "override", "worker"}, {"rollout", "override", "worker", "step_delay", "--clear", "--for", "1h"},
		{"rollout", "override", "worker", "step_delay", "--clear", "--reason", "x"}, {"rollout", "override", "worker", "Step_Delay", "--for", "1h", "--reason", "x"},
	} {
		if code, out := b.run(args...); code != ExitUsage {
			t.Errorf("%v: exit %d: %s", args, code, out)
		}
	}
	if code, out := b.run("rollout", "override", "nothing", "step_delay", "--clear"); code == ExitOK || !strings.Contains(out, "nothing") {
		t.Errorf("exit %d: %s", code, out)
	}
}
