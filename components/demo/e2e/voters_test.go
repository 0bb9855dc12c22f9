package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"cadre.dev/demo/internal/rig"
)

// TestCoordinatorDeathAfterHandover ends the leading coordinator right after the
// member that leads the workload handed its leadership over: the successor does not
// ask for another hand-over (R53, R70). It runs last, since it adds a group.
func TestCoordinatorDeathAfterHandover(t *testing.T) {
	c := ready(t)
	if _, err := os.Stat(filepath.Join(c.Root, ".tools/bin/etcd")); err != nil {
		t.Skip(".tools/bin/etcd is missing: run make tools")
	}
	apply := func(release string) {
		t.Helper()
		if err := c.ApplyEtcd(within(t, time.Minute), release); err != nil {
			t.Fatal(err)
		}
	}
	apply("1")
	c.complete(t, rig.Etcd)
	c.dieAt(t, "after-handover", rig.Etcd, func() { apply("2") })
	rollouts, err := c.api.Rollouts(within(t, 30*time.Second), rig.Etcd)
	if err != nil {
		t.Fatal(err)
	}
	if got := rollouts[0].Transfers; got != 1 {
		t.Errorf("leadership was handed over %d times, want once", got)
	}
}
