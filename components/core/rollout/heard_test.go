package rollout

import (
	"testing"

	"cadre.dev/core/operation"
)

// TestR120_ASilentMemberInAStepIsNoEvidence: the silence of a member in a step comes from the step, and is no evidence
// about the leader. A member that reports during its step counts, since the step must be able to continue.
func TestR120_ASilentMemberInAStepIsNoEvidence(t *testing.T) {
	for name, c := range map[string]struct {
		edit            func(f *fixture)
		expected, heard int
	}{
		"all speak":                   {func(*fixture) {}, 3, 3},
		"one is silent":               {func(f *fixture) { f.silent(1, f.now) }, 3, 2},
		"one is silent in its step":   {func(f *fixture) { f.rolling().op(1, operation.Booting, nil).silent(1, f.now) }, 2, 2},
		"one speaks in its step":      {func(f *fixture) { f.rolling().op(1, operation.Draining, nil) }, 3, 3},
		"one is down, and is so told": {func(f *fixture) { f.stopped(1) }, 2, 2},
		"one was never made":          {func(f *fixture) { f.missing(1) }, 2, 2},
	} {
		f := newFixture(3, "none").want("B")
		c.edit(f)
		if tally := seenBy(f).tally; tally.expected != c.expected || tally.heard != c.heard {
			t.Errorf("%s: %d of %d are heard, want %d of %d", name, tally.heard, tally.expected, c.heard, c.expected)
		}
	}
}

// TestR120_TwoAgentsDoNotShowWhichAgentIsDeaf: a silent member is healed where the leader hears a fleet beyond the two.
// Where the two are the whole fleet, it is left alone. A third agent that is heard decides the case.
func TestR120_TwoAgentsDoNotShowWhichAgentIsDeaf(t *testing.T) {
	for name, c := range map[string]struct {
		fleet Fleet
		heals bool
	}{
		"nothing is known of a fleet": {Fleet{}, false},
		"the two are the fleet":       {Fleet{Expected: 2, Heard: 1}, false},
		"there is a third one":        {Fleet{Expected: 3, Heard: 2}, true},
	} {
		f := heals(2, "none").silent(1, epoch)
		f.obs.Fleet = c.fleet
		if c.heals {
			wantExecutes(t, f.plan(), "RESTART db-1")
			continue
		}
		p := f.plan()
		if wantExecutes(t, p); !actionOf(t, p, "db-1").HeldBy(HoldInsufficientReports) {
			t.Errorf("%s: %s", name, describe(p))
		}
	}
}
