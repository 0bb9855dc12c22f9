package rollout_test

import (
	"testing"

	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

func TestR103_UndoGoesBackToWhatWasProven(t *testing.T) {
	history := func(states ...string) (out []operation.Rollout) {
		for i := 0; i < len(states); i += 2 {
			out = append(out, operation.Rollout{To: states[i], State: operation.RolloutState(states[i+1])})
		}
		return out
	}
	for name, c := range map[string]struct {
		target, stable string
		failed         []string
		history        []operation.Rollout
		want           string
	}{
		"a failed target":           {"c", "b", []string{"c"}, history("c", "FAILED", "b", "COMPLETE", "a", "COMPLETE"), "b"},
		"one under way":             {"c", "b", nil, history("c", "RUNNING", "b", "COMPLETE"), "b"},
		"a completed target":        {"b", "b", nil, history("b", "COMPLETE", "a", "COMPLETE"), "a"},
		"past what never got there": {"d", "d", nil, history("d", "COMPLETE", "c", "SUPERSEDED", "b", "FAILED", "a", "COMPLETE"), "a"},
		"past what failed later":    {"c", "c", []string{"b"}, history("c", "COMPLETE", "b", "COMPLETE", "a", "PARTITION_REACHED"), "a"},
		"the first one":             {"a", "a", nil, history("a", "COMPLETE"), ""},
		"none yet":                  {"a", "", nil, history("a", "RUNNING"), ""},
		"undone and undone again":   {"a", "a", nil, history("a", "COMPLETE", "b", "COMPLETE", "a", "COMPLETE"), "b"},
	} {
		if got := rollout.Before(c.target, c.stable, c.failed, c.history); got != c.want {
			t.Errorf("%s: goes back to %q, want %q", name, got, c.want)
		}
	}
}
