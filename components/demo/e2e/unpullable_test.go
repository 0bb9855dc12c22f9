package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestATT36_ASlowRegistryHoldsTheRollout at the first member for as long as the pull lasts. No
// agent runs in that guest, which has the new measurement already, and no other member is
// touched. The end of the pull lets the rollout complete.
func TestATT36_ASlowRegistryHoldsTheRollout(t *testing.T) {
	c := ready(t)
	// With this policy a container engine restores the old agent before it knows the new file.
	always := c.edited(t, "compose = templatefile(", "compose = replace(templatefile(", "local.trust\n    })", "local.trust\n    }), \"restart: unless-stopped\", \"restart: always\")")
	apply := func() {
		t.Helper()
		if _, err := c.ApplyLight(within(t, rollTime), always, c.next()); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	c.complete(t, rig.Light)
	before := c.look(t)
	was := map[string]int{}
	for _, slot := range slots(rig.Light) {
		lines, err := c.Lines(within(t, time.Minute), c.PlatformName(slot), "cvm", pulls)
		if err != nil {
			t.Fatal(err)
		}
		was[slot] = len(lines)
	}
	if waiting, err := c.SlowRegistry(within(t, time.Minute), true); err != nil || len(waiting) > 0 {
		t.Fatalf("waiting before the update: %v, %v", waiting, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := c.SlowRegistry(ctx, false); err != nil {
			t.Error(err)
		}
	})
	apply()
	slot := c.awaitPhase(t, operation.Booting)
	cvm := c.PlatformName(slot)
	// The guest writes this line when its engine has restored its containers.
	if err := c.AwaitLines(within(t, rollTime), was[slot], cvm, "cvm", pulls); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the leader sees that the slot is away", rollTime, func(ctx context.Context) error {
		g, err := c.api.Group(ctx, rig.Light)
		if err == nil && g.Status.Available != 2 {
			err = fmt.Errorf("%d slots are available", g.Status.Available)
		}
		return err
	})
	waiting, err := c.SlowRegistry(within(t, time.Minute), true)
	if err != nil || !slices.Equal(waiting, []string{cvm}) {
		t.Errorf("%v wait for images, want %s: %v", waiting, cvm, err)
	}
	for _, other := range slots(rig.Light) {
		want := 0
		if other == slot {
			want = 1
		}
		if got := c.look(t).updates[c.PlatformName(other)] - before.updates[c.PlatformName(other)]; got != want {
			t.Errorf("%s got %d updates during the pull of %s, want %d", other, got, slot, want)
		}
	}
	g, err := c.api.Group(within(t, time.Minute), rig.Light)
	if err != nil {
		t.Fatal(err)
	}
	if g.Status.RolloutState != string(operation.Running) {
		t.Errorf("the rollout is %s while the first member has no image: %s", g.Status.RolloutState, g.Status.Message)
	}

	freed := time.Now()
	if _, err := c.SlowRegistry(within(t, time.Minute), false); err != nil {
		t.Fatal(err)
	}
	c.complete(t, rig.Light)
	c.wantOneUpdateEach(t, rig.Light, before)
	calls, err := c.Calls(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls[before.calls:] {
		if call.Update() && call.CVM != cvm && call.Time.Before(freed) {
			t.Errorf("%s was updated %v before the pull of %s ended", call.CVM, freed.Sub(call.Time), cvm)
		}
	}
	described, err := c.api.Instance(within(t, time.Minute), slot)
	if err != nil {
		t.Fatal(err)
	}
	admitted := 0
	for _, d := range described.Admissions {
		if d.Code != "" || d.Revision != g.Status.Target {
			continue
		}
		admitted++
		if d.AdmittedAt.Before(freed) {
			t.Errorf("a boot of %s was admitted at the new revision %v before its image was there", slot, freed.Sub(d.AdmittedAt))
		}
	}
	if admitted == 0 {
		t.Errorf("no admission of %s at revision %s: %+v", slot, g.Status.Target, described.Admissions)
	}
	restored, err := c.Lines(within(t, time.Minute), cvm, "cvm", "restored from container")
	if err != nil || len(restored) > 0 {
		t.Errorf("containers of an earlier boot ran: %q, %v", restored, err)
	}
}

// pulls is a CVM's log line while its engine waits for images.
const pulls = "waits for the images of the compose file"
