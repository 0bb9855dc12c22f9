package control

import (
	"testing"
	"time"

	"cadre.dev/core/operation"
)

// TestAnOrderSaysHowLongItsStepMayTake: whatever the clock was that its deadline was set
// by, and also after another leader moved the recorded times to its own.
func TestAnOrderSaysHowLongItsStepMayTake(t *testing.T) {
	for _, clock := range []time.Time{time.Unix(1000, 0), time.Now(), time.Now().Add(24 * time.Hour)} {
		op := operation.Operation{
			ID: "op", Phase: operation.Draining, Kind: operation.Update, DrainDeadline: clock.Add(10 * time.Minute),
			Entered: operation.PhaseTimes{operation.Recorded: clock.Add(-time.Hour), operation.Draining: clock},
		}
		if o := order(op, "boot"); o.GetLimit().AsDuration() != 10*time.Minute || !o.GetDeadline().AsTime().Equal(op.DrainDeadline) {
			t.Errorf("drain: %v", o)
		}
		op.Phase, op.HealthyDeadline = operation.Joining, clock.Add(time.Hour)
		op.Entered[operation.Booting] = clock.Add(20 * time.Minute)
		if o := order(op, "boot"); o.GetLimit().AsDuration() != 40*time.Minute {
			t.Errorf("after the launch: %v", o)
		}
		delete(op.Entered, operation.Booting)
		if o := order(op, "boot"); o.GetLimit() != nil {
			t.Errorf("without a beginning: %v", o)
		}
	}
}
