package e2edemo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// turnsBad is the defect of a release: once the file is there, its PostgreSQL dies again and again.
const turnsBad = `(
        set +e
        until [ -e /tmp/turn-bad ]; do sleep 0.2; done
        while sleep 0.5; do
          for p in /proc/[0-9]*; do
            read -r name < $$p/comm && [ "$$name" = postgres ] && kill -9 "$${p#/proc/}"
          done
        done
      ) 2>/dev/null &
      `

// TestACanaryThatTurnsBadGoesBack updates one standby of a live PostgreSQL cluster, which turns bad while it bakes. It
// returns to the release before, no other member is touched, the spec stays, and no acknowledged write is lost.
func TestACanaryThatTurnsBadGoesBack(t *testing.T) {
	r, n := newRig(t, rig.DefaultNet)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	if err := r.Deploy(ctx, n); err != nil {
		t.Fatalf("deploy: %v", err)
	}
	c, err := r.Client()
	if err != nil {
		t.Fatal(err)
	}
	before, err := c.Group(ctx, rig.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.MarkDisks(ctx, before.Status.Instances); err != nil {
		t.Fatal(err)
	}
	boots := map[string]string{}
	for _, i := range before.Status.Instances {
		boots[i.Slot] = i.BootID
	}

	const launch = `exec "$$(command -v cadre-patroni`
	spec := before.Spec
	spec.UpdatePolicy.OnFailure = group.Rollback
	spec.UpdatePolicy.Stages = []group.Stage{{Slots: 1, Bake: group.Duration(10 * time.Minute)}}
	spec.Template.Compose = strings.Replace(spec.Template.Compose, launch, turnsBad+launch, 1)
	if spec.Template.Compose == before.Spec.Template.Compose {
		t.Fatal("the demo's compose file starts Patroni in another way")
	}
	n.Say("a release with a defect: one standby gets it, and bakes")
	if _, err := c.ApplyGroup(ctx, spec, before.Index, false); err != nil {
		t.Fatal(err)
	}
	canary := ""
	err = c.Watch(ctx, rig.Postgres, 0, func(v client.View) (bool, error) {
		n.Rollout(v)
		for _, i := range v.Status.Instances {
			if i.BootID != boots[i.Slot] {
				canary = i.Slot
			}
		}
		now := v.Plan.Rollout
		if now != nil && now.To != before.Status.Target && now.State != operation.Running {
			return false, errors.New(string(now.State) + ": " + now.Reason)
		}
		return now == nil || now.BakeSince.IsZero(), nil
	}, nil)
	if err != nil || canary == "" {
		t.Fatalf("no canary bakes (%q): %v", canary, err)
	}
	n.Say("%s turns bad", canary)
	if _, err := r.Exec(ctx, r.PlatformName(canary), "postgres", "touch", "/tmp/turn-bad"); err != nil {
		t.Fatal(err)
	}
	v, err := r.Follow(ctx, rig.Postgres, n.Rollout)
	var stopped *client.RolloutError
	if !errors.As(err, &stopped) || stopped.State != operation.RolledBack || !strings.Contains(stopped.Reason, canary+": it failed in the bake of stage 1 of 1") {
		t.Fatalf("the rollout ends with %v, want it rolled back for %s", err, canary)
	}
	if err := r.AwaitWrites(ctx, time.Now(), 50); err != nil {
		t.Error(err)
	}
	if back := v.Plan.Rollout.Back; back == nil || back.Revision != before.Status.Target || v.Plan.Rollout.Transfers+back.Transfers != 0 || v.Plan.Rollout.Steps != 2 {
		t.Errorf("the record of the rollout: %+v", v.Plan.Rollout)
	}
	for _, i := range v.Status.Instances {
		if i.State != group.SlotAvailable || i.Observed != before.Status.Target || !r.DiskKept(ctx, i.Slot) {
			t.Errorf("%s is %s at %.12s, its disk kept: %t", i.Slot, i.State, i.Observed, r.DiskKept(ctx, i.Slot))
		}
		if moved := i.BootID != boots[i.Slot]; moved != (i.Slot == canary) {
			t.Errorf("%s booted: %t", i.Slot, moved)
		}
	}
	if after, err := c.Group(ctx, rig.Postgres); err != nil || after.Spec.Template.Compose != spec.Template.Compose {
		t.Errorf("the spec changed: %v", err)
	}
	verdict, err := r.StopLoad(ctx)
	if err != nil || verdict.Missing != 0 {
		t.Errorf("writes that were acknowledged are missing: %+v, %v", verdict, err)
	}
	t.Logf("%s\nthe load: %+v", stopped.Reason, verdict)
}
