package e2e

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"cadre.dev/demo/internal/rig"
)

// TestRestoredBackupHalts is `make drill-restore` on the existing cluster: Consul's records go back
// behind a rollout. The cluster makes no call and reports the reason, until an operator resumes it
// with one command; then it rolls again (CTL-06, OPS-10).
func TestRestoredBackupHalts(t *testing.T) {
	c := ready(t)
	before := c.look(t)
	report, err := c.RestoredBackup(within(t, 3*rollTime), rig.NewNarrator(os.Stderr, false, time.Now()), func(ctx context.Context) error {
		_, err := c.ApplyLight(ctx, c.LightFile(), c.next())
		return err
	})
	if err != nil {
		t.Fatalf("%v; report %+v", err, report)
	}
	if !strings.Contains(report.DryRun, "--yes") {
		t.Errorf("cadre cluster accept-restore does not say how to go on:\n%s", report.DryRun)
	}
	if after := c.look(t); after.term <= before.term {
		t.Errorf("term %d after the recovery, %d before the backup", after.term, before.term)
	}
	t.Logf("halted after %.1f s: %s\n%s", report.HaltedS, report.Halted, report.Did)
}
