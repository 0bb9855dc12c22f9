package provider

import (
	"strings"
	"testing"

	"cadre.dev/core/operation"
)

// No command resumes a rollout that a newer spec replaced.
func TestTheWayOnAfterARolloutThatStopped(t *testing.T) {
	for state, want := range map[operation.RolloutState]string{
		operation.PausedState: "`cadre rollout resume web` and apply again", operation.FailedState: "`cadre rollout retry web --reason WHY` and apply again",
		operation.SupersededState: "A newer spec replaced it. See `cadre rollout status web`, and plan again",
	} {
		got := onward(state, "web")
		if !strings.Contains(got, want) || state == operation.SupersededState && (strings.Contains(got, "resume") || strings.Contains(got, "retry")) {
			t.Errorf("%s: %s", state, got)
		}
	}
}
