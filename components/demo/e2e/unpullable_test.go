package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// TestATT36_AnImageThatCannotBeHadStopsTheRollout at the first member: its guest stays up with the
// new measurement and nothing in it, so no old agent is admitted at the new revision. The platform
// reports no image; the reasons of the rollout and of the step name it.
func TestATT36_AnImageThatCannotBeHadStopsTheRollout(t *testing.T) {
	c := ready(t)
	before := c.look(t)
	image := "registry.example/team/absent@sha256:" + strings.Repeat("ab", 32)
	c.apply(t, "--var", "light_image="+image)
	v, err := c.Follow(within(t, rollTime), rig.Light, nil)
	var stopped *client.RolloutError
	if !errors.As(err, &stopped) || stopped.State != operation.FailedState {
		t.Fatalf("the rollout ends with %v, want it failed", err)
	}
	for _, want := range []string{"failed to start containers", image} {
		if !strings.Contains(stopped.Reason, want) {
			t.Errorf("the rollout's reason does not contain %q: %s", want, stopped.Reason)
		}
	}
	ill := slices.DeleteFunc(slices.Clone(v.Status.Instances), func(i group.InstanceStatus) bool { return i.State == "Available" })
	if len(ill) != 1 || v.Status.Available != 2 {
		t.Fatalf("%d slots are available: %+v", v.Status.Available, v.Status.Instances)
	}
	slot := ill[0].Slot
	ctx := within(t, rollTime)
	rollouts, err := c.api.Rollouts(ctx, rig.Light)
	if err != nil {
		t.Fatal(err)
	}
	if steps := c.steps(ctx, t, slot, rollouts[0].ID); len(steps) != 1 || steps[0].Phase != operation.Failed || !strings.Contains(steps[0].Reason, image) {
		t.Errorf("the step's reason does not name the image: %+v", steps)
	}
	described, err := c.api.Instance(ctx, slot)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range described.Admissions {
		if d.Code == "" && d.Revision == v.Status.Target {
			t.Errorf("a boot was admitted at the revision whose image cannot be had: %+v", d)
		}
	}
	c.wantUpdates(t, rig.Light, before, map[string]int{slot: 1})
	before = c.look(t)
	c.roll(t)
	c.wantOneUpdateEach(t, rig.Light, before)
}
