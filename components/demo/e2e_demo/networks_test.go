package e2edemo

import (
	"context"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// TestOtherNetworks rolls a group in networks that let fewer kinds of path through than the demo's: members find
// the path that is left, and a rollout ends well over it. Every pair of NATs is tried in overlay/labtest.
// Both clusters run at once, each in a cloud of its own: most of the time they wait.
func TestOtherNetworks(t *testing.T) {
	for _, c := range []struct {
		name, path string
		net        rig.Net
	}{
		{"symmetric", "gateway", rig.Net{NAT: "symmetric"}},
		{"udp-blocked", "direct-tcp", rig.Net{NAT: rig.DefaultNet.NAT, BlockUDP: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, n := newRig(t, c.net)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if err := r.Up(ctx); err != nil {
				t.Fatal(err)
			}
			if err := r.CreateLightCluster(ctx); err != nil {
				t.Fatal(err)
			}
			roll(ctx, t, r, n, "1")
			t.Logf("paths:\n%s", awaitPath(ctx, t, r, rig.Light, c.path))
			roll(ctx, t, r, n, "2")
			t.Logf("paths:\n%s", awaitPath(ctx, t, r, rig.Light, c.path))
		})
	}
}

// roll applies a release of the light group and waits until every Slot runs it.
func roll(ctx context.Context, t *testing.T, r *rig.Rig, n *rig.Narrator, release string) {
	t.Helper()
	if _, err := r.ApplyLight(ctx, r.LightFile(), release); err != nil {
		t.Fatal(err)
	}
	v, err := r.Follow(ctx, rig.Light, n.Rollout)
	if err != nil {
		t.Fatalf("release %s: %v", release, err)
	}
	if v.Status.RolloutState != string(operation.Complete) || v.Status.Available != v.Status.Replicas || v.Status.Replicas == 0 {
		t.Fatalf("release %s: the rollout is %s with %d of %d slots available: %s",
			release, v.Status.RolloutState, v.Status.Available, v.Status.Replicas, v.Status.Message)
	}
}
