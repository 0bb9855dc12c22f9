package control

import (
	"testing"
	"time"

	"cadre.dev/core/operation"
)

// An order has the time limit of its step. The limit does not depend on the clock behind the
// deadline, and holds after another leader moved the recorded times to its own clock.
func TestAnOrderHasTheTimeLimitOfItsStep(t *testing.T) {
	for _, clock := range []time.Time{time.Unix(1000, 0), time.Now(), time.Now().Add(24 * time.Hour)} {
		rec := step("op", operation.Draining, clock, 20)
		op := &rec.Value
		op.Times.DrainBy = clock.Add(10 * time.Minute)
		if o := desired(t, records(rec), "boot").GetOperation(); o.GetLimit().AsDuration() != 10*time.Minute || !o.GetDeadline().AsTime().Equal(op.Times.DrainBy) {
			t.Errorf("drain: %v", o)
		}
		op.Phase, op.Times.HealthyBy = operation.Joining, clock.Add(time.Hour)
		op.Entered[operation.Booting] = clock.Add(20 * time.Minute)
		if o := desired(t, records(rec), "boot").GetOperation(); o.GetLimit().AsDuration() != 40*time.Minute {
			t.Errorf("after the launch: %v", o)
		}
		delete(op.Entered, operation.Booting)
		if o := desired(t, records(rec), "boot").GetOperation(); o.GetLimit() != nil {
			t.Errorf("without a beginning: %v", o)
		}
	}
}
