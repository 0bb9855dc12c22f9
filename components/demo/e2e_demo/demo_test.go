package e2edemo

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"cadre.dev/demo/internal/rig"
)

// rollouts in a row, on one cluster: what the first leaves behind the others must stand.
const rollouts = 3

func TestDemoPath(t *testing.T) {
	r, n := newRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	if err := r.Deploy(ctx, n); err != nil {
		t.Fatalf("deploy: %v", err)
	}
	checkPaths(ctx, t, r)
	instances := map[string]string{}
	for i := range rollouts {
		var report rig.Report
		if err := r.Planned(ctx, n, string(rune('a'+i)), &report); err != nil {
			t.Fatalf("rollout %d: %v", i+1, err)
		}
		checkRollout(t, i+1, report, instances)
	}
	var report rig.Report
	if err := r.Unplanned(ctx, n, &report); err != nil {
		t.Fatalf("after the leader's death: %v", err)
	}
	verdict, err := r.StopLoad(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if verdict.Missing != 0 || verdict.Acknowledged == 0 {
		t.Errorf("%d of %d acknowledged writes are missing on the leader, want none", verdict.Missing, verdict.Acknowledged)
	}
}

// checkRollout holds one rollout against what the issue of every user is: one
// move of leadership, the leader last, each on its own disk and instance.
func checkRollout(t *testing.T, number int, report rig.Report, instances map[string]string) {
	t.Helper()
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
	t.Logf("rollout %d: %.0f s, longest write gap %d ms", number, report.RolloutS, report.GapMS.Planned)
}

func newRig(t *testing.T) (*rig.Rig, *rig.Narrator) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, need := range []string{"bin/cadre", "bin/cadre-local", "bin/cadre-agent", "bin/cadre-coordinator", "bin/cadre-load", "bin/cadre-rendezvous", ".tools/bin/consul", ".tools/patroni/bin/patroni"} {
		if _, err := os.Stat(filepath.Join(root, need)); err != nil {
			t.Skipf("%s is missing: run make tools build", need)
		}
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is missing: run make tools")
	}
	var log bytes.Buffer
	r, err := rig.New(root, filepath.Join(t.TempDir(), "rig"), time.Second, &log)
	if err != nil {
		t.Fatal(err)
	}
	r.Net = rig.DefaultNet
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
