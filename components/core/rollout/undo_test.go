package rollout_test

import (
	"strings"
	"testing"

	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

func TestR103_AnUndoGoesBackToAProvenRevision(t *testing.T) {
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
		"undone after a failure":    {"a", "a", []string{"b"}, history("a", "COMPLETE", "b", "FAILED", "a", "COMPLETE", "z", "COMPLETE"), "z"},
		"undone and undone again":   {"a", "a", nil, history("a", "COMPLETE", "b", "COMPLETE", "a", "COMPLETE"), "b"},
		"past one kept back":        {"c", "a", nil, history("c", "RUNNING", "b", "PARTITION_REACHED", "a", "COMPLETE"), "b"},
		"kept back, and it failed":  {"c", "a", []string{"b"}, history("c", "RUNNING", "b", "PARTITION_REACHED", "a", "COMPLETE"), "a"},
		"from one kept back":        {"b", "a", nil, history("b", "PARTITION_REACHED", "a", "COMPLETE"), "a"},
		"stable failed once more":   {"c", "a", []string{"a"}, history("c", "RUNNING", "a", "COMPLETE"), "a"},
		"its rollout is not kept":   {"c", "a", nil, history("c", "RUNNING", "b", "FAILED"), "a"},
	} {
		if got := rollout.Before(c.target, c.stable, c.failed, c.history); got != c.want {
			t.Errorf("%s: goes back to %q, want %q", name, got, c.want)
		}
	}
}

// TestR103_AnUndoOfAnIncompleteRolloutAsksTheOperator: an undo of an undo has two meanings if the undone rollout never
// completed.
func TestR103_AnUndoOfAnIncompleteRolloutAsksTheOperator(t *testing.T) {
	for name, c := range map[string]struct {
		target, history, want string
	}{
		"it failed":                     {"a", "a COMPLETE b FAILED a COMPLETE z COMPLETE", "b"},
		"it was cut short":              {"a", "a RUNNING b SUPERSEDED a COMPLETE", "b"},
		"two did not arrive":            {"a", "a COMPLETE c FAILED b FAILED a COMPLETE", "c"},
		"undone twice before":           {"a", "a COMPLETE a COMPLETE b FAILED a COMPLETE", "b"},
		"it had arrived":                {"a", "a COMPLETE b COMPLETE a COMPLETE", ""},
		"forward past a failure":        {"c", "c COMPLETE b FAILED a COMPLETE", ""},
		"back past one that arrived":    {"a", "a COMPLETE c FAILED b COMPLETE a COMPLETE", "c"},
		"the first one":                 {"a", "a COMPLETE", ""},
		"under way, and nothing before": {"b", "b RUNNING a COMPLETE", ""},
	} {
		words := strings.Fields(c.history)
		var history []operation.Rollout
		for i := 0; i < len(words); i += 2 {
			history = append(history, operation.Rollout{To: words[i], State: operation.RolloutState(words[i+1])})
		}
		if got := rollout.Arrived(c.target, history); got != strings.Contains(words[1], "COMPLETE") {
			t.Errorf("%s: arrived: %t", name, got)
		}
		if got := rollout.WentBackFrom(c.target, history); got != c.want {
			t.Errorf("%s: went back from %q, want %q", name, got, c.want)
		}
	}
}

// TestR103_AnUndoToACanarysRevisionIsAskedAbout: a Revision that only a canary ran is no undo target for the other
// Slots. An operator decides the direction.
func TestR103_AnUndoToACanarysRevisionIsAskedAbout(t *testing.T) {
	kept, all := operation.Rollout{To: "b", State: operation.PartitionReached}, operation.Rollout{To: "b", State: operation.Complete}
	for name, c := range map[string]struct {
		stable, ran string
		history     []operation.Rollout
		want        bool
	}{
		"one of ten ran it":           {"a", "a a a a a a a a a b", []operation.Rollout{kept}, true},
		"the target is stable by now": {"c", "a a b", []operation.Rollout{kept}, true},
		"all but one ran it":          {"a", "b b b a", []operation.Rollout{kept}, false},
		"the canary alone goes back":  {"a", "b", []operation.Rollout{kept}, false},
		"half of them":                {"a", "a b", []operation.Rollout{kept}, true},
		"nobody knows":                {"a", "", []operation.Rollout{kept}, true},
		"it is the stable one":        {"b", "a a b", []operation.Rollout{kept}, false},
		"all ran it":                  {"c", "a a", []operation.Rollout{all, kept}, false},
		"once, and a canary later":    {"c", "a a", []operation.Rollout{kept, all}, true},
		"its rollout is not kept":     {"a", "a a", nil, false},
	} {
		if got := rollout.OfPart("b", c.stable, strings.Fields(c.ran), c.history); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
