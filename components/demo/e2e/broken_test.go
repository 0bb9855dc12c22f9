package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/demo/internal/rig"
	"cadre.dev/platform"
)

// TestBrokenTarget rolls a release that never becomes healthy: it costs one Slot
// and no more (R39, R99). The corrected release begins with that Slot and does not
// wait for it (R28, R31).
func TestBrokenTarget(t *testing.T) {
	c := ready(t)
	before := c.look(t)
	c.apply(t, "--var", "port=9999", "--var", "healthy_deadline=15s")
	v, err := c.Follow(within(t, rollTime), rig.Light, nil)
	var stopped *client.RolloutError
	if !errors.As(err, &stopped) || stopped.State != operation.FailedState {
		t.Fatalf("the rollout ends with %v, want it failed", err)
	}
	if !strings.Contains(stopped.Reason, "not available") {
		t.Errorf("the rollout's reason does not say what is wrong: %s", stopped.Reason)
	}
	broken := ""
	for _, i := range v.Status.Instances {
		if i.State == "Available" {
			continue
		}
		if broken != "" {
			t.Errorf("%s and %s are not available", broken, i.Slot)
		}
		broken = i.Slot
	}
	if broken == "" || v.Status.Available != 2 {
		t.Fatalf("%d slots are available, want 2: %+v", v.Status.Available, v.Status.Instances)
	}
	if !slices.Contains(v.Status.FailedRevisions, v.Status.Target) {
		t.Errorf("revision %s is not among the failed ones %v", v.Status.Target, v.Status.FailedRevisions)
	}
	c.wantUpdates(t, rig.Light, before, map[string]int{broken: 1})

	before = c.look(t)
	c.roll(t)
	c.wantOneUpdateEach(t, rig.Light, before)
	ctx := within(t, 30*time.Second)
	rollouts, err := c.api.Rollouts(ctx, rig.Light)
	if err != nil {
		t.Fatal(err)
	}
	steps := c.steps(ctx, t, broken, rollouts[0].ID)
	if len(steps) != 1 || steps[0].Order != 1 {
		t.Fatalf("the broken slot %s is not the first of the corrected rollout: %+v", broken, steps)
	}
	if waited := steps[0].Call.IssuedAt.Sub(rollouts[0].StartedAt); waited > 10*time.Second {
		t.Errorf("the broken slot waited %s for its correction", waited)
	}
}

// TestWrongComposeIsRefused changes one CVM's compose file on the platform, without Cadre: its Boot
// proves content that the policy does not allow, and is not admitted. Cadre updates it back as soon
// as it may.
func TestWrongComposeIsRefused(t *testing.T) {
	c := ready(t)
	before := c.look(t)
	g, err := c.api.Group(within(t, time.Minute), rig.Light)
	if err != nil {
		t.Fatal(err)
	}
	slot := slots(rig.Light)[0]
	wrong := strings.Replace(g.Spec.Template.Compose, "release ", "not the release ", 1)
	raw, err := appcompose.Render(c.PlatformName(rig.Light), wrong, slices.Collect(maps.Keys(g.Spec.Template.Env)))
	if err != nil {
		t.Fatal(err)
	}
	template := platform.Template{
		AppCompose: raw, Env: g.Spec.Template.Env, InstanceType: g.Spec.Template.InstanceType, OSImage: g.Spec.Template.OSImage,
	}
	// Paused, Cadre leaves the slot as it is, and there is time to look at it.
	if _, err := c.api.SetOverride(within(t, time.Minute), client.OverridePause, rig.Light, 0, "a test looks"); err != nil {
		t.Fatal(err)
	}
	c.change(t, before.cvms[c.PlatformName(slot)].VMUUID, template)

	eventually(t, "the wrong boot is refused", 2*time.Minute, func(ctx context.Context) error {
		described, err := c.api.Instance(ctx, slot)
		if err != nil {
			return err
		}
		refused := slices.ContainsFunc(described.Admissions, func(d client.Decision) bool { return d.Code == policy.CodeRevisionNotAllowed })
		if s := described.Status; !refused || s.State == "Available" || !strings.Contains(s.LastRefusal, string(policy.CodeRevisionNotAllowed)) {
			return fmt.Errorf("%s is %s, last refusal %q, decisions %+v", slot, s.State, s.LastRefusal, described.Admissions)
		}
		return nil
	})
	out, err := c.Cadre(within(t, time.Minute), "instance", "describe", slot)
	if err != nil || !strings.Contains(out, string(policy.CodeRevisionNotAllowed)) {
		t.Errorf("cadre instance describe does not show the refusal: %v\n%s", err, out)
	}
	// The workload starts only where the agent was admitted.
	if out, err := c.Exec(within(t, time.Minute), c.PlatformName(slot), "web", "python3", "-c",
		"import socket; socket.create_connection(('127.0.0.1', 8080), 1)"); err == nil || !strings.Contains(out+err.Error(), "ConnectionRefusedError") {
		t.Errorf("the refused boot serves, or was not asked: %v: %s", err, out)
	}
	// The leader may have a last report of the boot that is gone for a few seconds.
	eventually(t, "only the two others are available", time.Minute, func(ctx context.Context) error {
		g, err := c.api.Group(ctx, rig.Light)
		if err == nil && g.Status.Available != 2 {
			err = fmt.Errorf("%d slots are available", g.Status.Available)
		}
		return err
	})

	// The CVM proved its content, so the reason of its silence is known: Cadre updates it back.
	if _, err := c.api.ClearOverride(within(t, time.Minute), client.OverridePause, rig.Light); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the right boot is let in", 2*time.Minute, func(ctx context.Context) error {
		described, err := c.api.Instance(ctx, slot)
		if err == nil && (described.Status.State != "Available" || described.Status.LastRefusal != "") {
			err = fmt.Errorf("%s is %s: %s; last refusal %q", slot, described.Status.State, described.Status.Reason, described.Status.LastRefusal)
		}
		return err
	})
	c.wantUpdates(t, rig.Light, before, map[string]int{slot: 2})
	before = c.look(t)
	c.roll(t)
	c.wantOneUpdateEach(t, rig.Light, before)
}

// change updates a CVM as its owner can, without Cadre.
func (c *cluster) change(t *testing.T, vmUUID string, template platform.Template) {
	t.Helper()
	ctx := within(t, time.Minute)
	provisioned, err := c.cloud.Provision(ctx, vmUUID, template)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.cloud.Update(ctx, platform.UpdateRequest{
		VMUUID: vmUUID, ComposeHash: provisioned.ComposeHash, EnvKey: provisioned.EnvKey, Env: template.Env,
	}); err != nil {
		t.Fatal(err)
	}
}
