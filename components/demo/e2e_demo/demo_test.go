package e2edemo

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
	"cadre.dev/demo/internal/rigtest"
)

// rollouts follow each other, so that the second one starts from the first one's result.
const rollouts = 2

// TestDemoPath is the demo of the README on real PostgreSQL, with all faults of a cluster, on one
// deployment. TestOtherNetworks has the paths of other networks.
func TestDemoPath(t *testing.T) {
	r, n := newRig(t, rig.DefaultNet)
	r.Routes = true
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	if err := r.Deploy(ctx, n); err != nil {
		t.Fatalf("deploy: %v", err)
	}
	t.Logf("paths:\n%s", awaitPath(ctx, t, r, rig.Postgres, "direct-"))
	checkPaths(ctx, t, r)
	worst := checkRollouts(ctx, t, r, n, rollouts)
	checkKilledWhilePaused(ctx, t, r, n)
	checkDeath(ctx, t, r, n, worst)
	checkLostCVM(ctx, t, r, n)
	checkDestroyedCVM(ctx, t, r, n)
	checkPowerLoss(ctx, t, r, n)
}

// checkRollouts makes rollouts in a row and gives the longest write gap in ms.
func checkRollouts(ctx context.Context, t *testing.T, r *rig.Rig, n *rig.Narrator, count int) (worst int64) {
	t.Helper()
	instances := map[string]string{}
	for i := range count {
		var report rig.Report
		if err := r.Planned(ctx, n, string(rune('a'+i)), &report); err != nil {
			t.Fatalf("rollout %d: %v", i+1, err)
		}
		checkRollout(t, i+1, report, instances)
		worst = max(worst, report.GapMS.Planned)
	}
	return worst
}

// checkDeath kills the leader, and its CVM is started again by healing. `make bench-rollout` compares the gap in
// writes with that of a hand-over.
func checkDeath(ctx context.Context, t *testing.T, r *rig.Rig, n *rig.Narrator, planned int64) {
	t.Helper()
	var report rig.Report
	if err := r.Unplanned(ctx, n, &report); err != nil {
		t.Fatalf("after the leader's death: %v", err)
	}
	back, err := r.AwaitHealed(ctx, report.Killed, "its CVM was killed", report.KilledAt)
	if err != nil {
		t.Fatal(err)
	}
	n.Healing(back)
	if back.Kind != string(operation.Restart) || !r.DiskKept(ctx, report.Killed) {
		t.Errorf("%s came back by %s, its disk kept: %t", report.Killed, back.Kind, r.DiskKept(ctx, report.Killed))
	}
	t.Logf("longest write gap %d ms in a rollout, %d ms when the leader died", planned, report.GapMS.Unplanned)
}

// checkPowerLoss is `make drill-power` on the existing cluster: the power of everything goes at one
// instant, the cluster recovers automatically at its addresses, and no write that was acknowledged
// before or since is missing.
func checkPowerLoss(ctx context.Context, t *testing.T, r *rig.Rig, n *rig.Narrator) {
	t.Helper()
	before, err := os.ReadFile(r.ContextFile())
	if err != nil {
		t.Fatal(err)
	}
	report, err := r.PowerLoss(ctx, n)
	if err != nil {
		t.Fatalf("after a power loss: %v", err)
	}
	if now, err := os.ReadFile(r.ContextFile()); err != nil || !bytes.Equal(now, before) {
		t.Errorf("the context file changed (%v): a copy of it would be void", err)
	}
	if len(report.Processes) < 5 {
		t.Errorf("killed %v: that was not everything", report.Processes)
	}
	t.Logf("power loss: whole after %v s, longest write gap %.0f s, verdict %+v", report.AvailableS, report.GapS, report.Verdict)
}

// checkRollout compares one rollout with the users' main demand: one move of leadership, the leader
// last, each member on its own disk and instance.
func checkRollout(t *testing.T, number int, report rig.Report, instances map[string]string) {
	t.Helper()
	if report.Transfers != 1 {
		t.Errorf("rollout %d: %d confirmed hand-overs, want 1", number, report.Transfers)
	}
	if report.LeadershipMoves != 1 {
		t.Errorf("rollout %d: leadership moved %d times as the load saw it, want 1", number, report.LeadershipMoves)
	}
	if len(report.Slots) != 3 {
		t.Fatalf("rollout %d: %d slots were moved, want 3: %+v", number, len(report.Slots), report.Slots)
	}
	for i, slot := range report.Slots {
		if slot.Order != i+1 || slot.Led != (i == 2) {
			t.Errorf("rollout %d: %s went as number %d, led=%v; want the leader last", number, slot.Slot, slot.Order, slot.Led)
		}
		if !slot.DiskKept || !slot.Admitted {
			t.Errorf("rollout %d: %s: disk kept %v, admitted at the new revision %v; want both", number, slot.Slot, slot.DiskKept, slot.Admitted)
		}
		if before, seen := instances[slot.Slot]; seen && before != slot.InstanceID {
			t.Errorf("rollout %d: instance of %s is %s, was %s", number, slot.Slot, slot.InstanceID, before)
		}
		instances[slot.Slot] = slot.InstanceID
	}
	for way, seen := range report.Ways {
		if len(seen.Leaders) != 2 {
			t.Errorf("rollout %d: by the way %s %v acknowledged writes, want the leader before and the one after", number, way, seen.Leaders)
		}
		t.Logf("rollout %d, way %s: longest write gap %d ms, %d writes failed", number, way, seen.PlannedGapMS, seen.PlannedFailed)
	}
	t.Logf("rollout %d: %.0f s, longest write gap %d ms", number, report.RolloutS, report.GapMS.Planned)
}

func newRig(t *testing.T, net rig.Net) (*rig.Rig, *rig.Narrator) {
	t.Helper()
	root := rigtest.Needs(t, []string{"bwrap"}, []string{"cadre", "cadre-local", "cadre-agent", "cadre-coordinator", "cadre-load", "cadre-rendezvous"})
	var log bytes.Buffer
	r := rig.New(root, filepath.Join(t.TempDir(), "rig"), time.Second, &log)
	r.Net = net
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Down(ctx); err != nil {
			t.Errorf("bring the local cloud down: %v", err)
		}
		if t.Failed() {
			t.Logf("what cadre printed:\n%s", log.String())
		}
	})
	return r, rig.NewNarrator(os.Stderr, false, time.Now())
}

// leader is the Slot that leads PostgreSQL.
func leader(ctx context.Context, t *testing.T, r *rig.Rig) string {
	t.Helper()
	c, err := r.Client()
	if err != nil {
		t.Fatal(err)
	}
	members, err := c.Instances(ctx, rig.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if m.Role == "leader" {
			return m.Slot
		}
	}
	t.Fatal("no coordinator leads")
	return ""
}
