package group

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestR94_StagesAreCheckedBeforeTheyStand: each bad stage is refused with its field path, all at once.
func TestR94_StagesAreCheckedBeforeTheyStand(t *testing.T) {
	s := goodSpec()
	s.Replicas = 5
	s.UpdatePolicy.Bake = Duration(8 * 24 * time.Hour)
	s.UpdatePolicy.Stages = []Stage{
		{Slots: 2, Percent: 10},
		{},
		{Percent: 101},
		{Slots: 6},
		{Slots: 2, Bake: Duration(time.Millisecond), Promote: "later"},
		{Slots: 2},
	}
	s.Normalize()
	err := Validate(s)
	for _, path := range []string{"update_policy.bake", "stage[0].slots", "stage[1]:", "stage[2].percent", "stage[3].slots", "stage[4].bake", "stage[4].promote", "stage[4]:", "stage[5]:"} {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("no problem at %s: %v", path, err)
		}
	}
	s = goodSpec()
	s.UpdatePolicy.Type, s.UpdatePolicy.Stages = Opportunistic, slices.Repeat([]Stage{{Slots: 1}}, maxStages+1)
	s.Normalize()
	for _, part := range []string{"at most 16", "OPPORTUNISTIC"} {
		if err := Validate(s); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}

func TestR94_AStageIsAShareOfTheGroup(t *testing.T) {
	for _, c := range []struct {
		stage    Stage
		replicas int
		want     int
	}{
		{Stage{Slots: 2}, 5, 2}, {Stage{Slots: 7}, 5, 5}, {Stage{Percent: 50}, 5, 2}, {Stage{Percent: 1}, 5, 1}, {Stage{Percent: 100}, 5, 5},
	} {
		if got := c.stage.Of(c.replicas); got != c.want {
			t.Errorf("%+v of %d is %d, not %d", c.stage, c.replicas, got, c.want)
		}
	}
}

// TestStagesAndBakesAreNoPartOfTheRevision: an edit of them starts no rollout.
func TestStagesAndBakesAreNoPartOfTheRevision(t *testing.T) {
	s := goodSpec()
	before := s.Revision()
	s.UpdatePolicy.Bake, s.UpdatePolicy.Stages = Duration(time.Hour), []Stage{{Slots: 1}}
	s.Normalize()
	if s.Revision() != before {
		t.Error("the revision moved")
	}
	if err := Validate(s); err != nil {
		t.Error(err)
	}
}

func TestStagesThatChangeNothingAreWarnings(t *testing.T) {
	s := goodSpec()
	s.Replicas = 3
	s.UpdatePolicy.Stages = []Stage{{Percent: 10}, {Percent: 50}, {Percent: 100}}
	s.Normalize()
	if err := Validate(s); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(Warnings(s), "\n")
	for _, part := range []string{"same_stage: update_policy.stage[1]", "stage_of_all: update_policy.stage[2]"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %q", part, got)
		}
	}
}
