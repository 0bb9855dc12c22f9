package reconcile_test

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// TestR141_AnOverriddenHoldPassesTheStepsOfOneRollout: the record passes the hold, each operation that passed it says
// so, and the record goes with the rollout. The next rollout waits again.
func TestR141_AnOverriddenHoldPassesTheStepsOfOneRollout(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		slow := func(release string) group.Spec {
			s := spec(release)
			s.UpdatePolicy.StepDelay = group.Duration(20 * time.Hour)
			return s
		}
		waits := func() bool {
			for _, slot := range []string{"pg-0", "pg-1", "pg-2"} {
				if w.waitsFor(slot, rollout.HoldStepDelay) {
					return true
				}
			}
			return false
		}
		w.apply(slow("two"))
		w.until("the first step, and the pause after it", 10*time.Minute, waits)
		current := w.rolloutTo("two").ID
		key := store.OverrideKey(store.OverrideHold, "pg/"+rollout.HoldStepDelay)
		w.putJSON(key, store.Override{Reason: "the fix is urgent", By: "ann", At: time.Now(), Until: time.Now().Add(10 * time.Hour), Rollout: current})
		w.until("the rollout", 30*time.Minute, w.complete("two"))
		passed := 0
		for _, o := range w.view().Operations {
			if op := o.Value; op.Rollout == current && len(op.Overridden) > 0 {
				passed++
				if want := (operation.Overridden{Hold: rollout.HoldStepDelay, By: "ann", Reason: "the fix is urgent"}); op.Overridden[0] != want {
					t.Errorf("%s passed %+v", op.ID, op.Overridden)
				}
			}
		}
		if passed != 2 {
			t.Errorf("%d operations passed the hold, want the last two", passed)
		}
		w.until("the end of the override", 10*time.Minute, func() bool {
			_, is := w.view().Overrides[store.OverrideHold]["pg/"+rollout.HoldStepDelay]
			return !is
		})
		w.apply(slow("three"))
		w.until("the pause of the next rollout", 10*time.Minute, waits)
	})
}
