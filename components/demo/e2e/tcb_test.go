package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"cadre.dev/demo/internal/rig"
)

// TestATT04_ANewEvaluationInTheMiddleOfARollout is `make drill-tcb` on the cluster that is there: Intel's early set
// warns, the standard set is replaced between two members of a rollout, which completes with every member
// tolerated, and the host is updated in time.
func TestATT04_ANewEvaluationInTheMiddleOfARollout(t *testing.T) {
	c := ready(t)
	report, err := c.FirmwareDay(within(t, 3*rollTime), rig.NewNarrator(os.Stderr, false, time.Now()), func(ctx context.Context) error {
		_, err := c.ApplyLight(ctx, c.LightFile(), c.next())
		return err
	})
	if err != nil {
		t.Fatalf("%v; report %+v", err, report)
	}
	// The other tests use this connection.
	if _, err := c.api.Group(within(t, time.Minute), rig.Light); err != nil {
		t.Error(err)
	}
	if len(report.Early) != 3 || len(report.Tolerated) != 3 || len(report.Updated) != 0 {
		t.Errorf("lines about machines: %d, %d and %d; want 3, 3 and none", len(report.Early), len(report.Tolerated), len(report.Updated))
	}
	t.Logf("the rollout of the day took %.1f s; usual gap %.1f s, gap of the day %.1f s", report.RolloutS, report.UsualGapS, report.DayGapS)
}

// TestATT04_AHostThatIsLateHoldsOnlyItsOwnMember is the end of `make drill-tcb`: after the grace a member that starts on a
// host without the update is refused, with a way out, while the others run. The update brings it back.
func TestATT04_AHostThatIsLateHoldsOnlyItsOwnMember(t *testing.T) {
	c := ready(t)
	report, err := c.FirmwareLate(within(t, rollTime), rig.NewNarrator(os.Stderr, false, time.Now()))
	if err != nil {
		t.Fatalf("%v; report %+v", err, report)
	}
	t.Logf("whole again %.1f s after the update: %+v", report.BackS, report)
}
