package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// While a Slot moves, a Boot of the old Revision is let in as well as one of the new: a CVM that
// reboots by itself before the call, or one whose call had no effect, comes back. When the
// step is done only the new one is.
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
