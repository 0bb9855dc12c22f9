package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// While a Slot moves, Boots of the old and of the new Revision are admitted. A CVM may reboot
// before the call, or the call may have no effect; both come back. After the step only the new
// Revision is admitted.
func TestOldAndNewRevisionAreAllowedUntilTheStepEnds(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		before, after := spec("one").Revision(), spec("two").Revision()
		allows := func(p policy.SlotPolicy, revision string) bool {
			return slices.ContainsFunc(p.Allowed, func(a policy.AllowedRevision) bool { return a.Revision == revision })
		}
		w.apply(spec("two"))
		done, seen := w.complete("two"), map[operation.Phase]bool{}
		w.until("update", 5*time.Minute, func() bool {
			v := w.view()
			for slot, p := range v.Policies {
				record, open := v.OpenOperation(slot)
				if !open || record.Value.To != after {
					continue
				}
				phase := record.Value.Phase
				seen[phase] = true
				if !allows(p.Value, before) {
					t.Errorf("%s: %.8s is not allowed any more in %s", slot, before, phase)
				}
				if acted := record.Value.Call.Number > 0; acted && !allows(p.Value, after) {
					t.Errorf("%s: %.8s is not allowed after the call, in %s", slot, after, phase)
				}
			}
			return done()
		})
		for _, phase := range []operation.Phase{operation.Draining, operation.Booting, operation.Settling} {
			if !seen[phase] {
				t.Errorf("no step was seen in %s", phase)
			}
		}
		w.until("the old revision is taken back", time.Minute, func() bool {
			for _, p := range w.view().Policies {
				if allows(p.Value, before) || !allows(p.Value, after) {
					return false
				}
			}
			return true
		})
	})
}
