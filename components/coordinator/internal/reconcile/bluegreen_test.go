package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/core/group"
)

// A rollout of a group without state gives each member another CVM, after an extra member was updated in place.
func TestARolloutReplacesEachMember(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		stateless := func(release string) group.Spec {
			s := spec(release)
			one := 1
			s.Workload = group.Workload{Kind: group.WorkloadNone}
			s.UpdatePolicy.MinimalAction, s.UpdatePolicy.MaxSurgeFixed = group.ActionReplace, &one
			return s
		}
		w.apply(stateless("one"))
		w.until("creation", 2*time.Minute, w.availableSlots(3))
		before := w.view().Slots
		w.apply(stateless("two"))
		target := stateless("two")
		w.until("the rollout", 20*time.Minute, func() bool {
			st := w.status()
			return st.Stable == target.Revision() && st.Available == 3 && len(w.view().Slots) == 3
		})
		if got := w.made("update"); len(got) != 1 {
			t.Errorf("updates %v: the extra member alone is updated in place", got)
		}
		for slot, was := range before {
			is := w.view().Slots[slot].Value
			if is.InstanceID == was.Value.InstanceID || is.VMUUID == was.Value.VMUUID || is.Assigned != target.Revision() {
				t.Errorf("%s has CVM %s (%s), before %s (%s)", slot, is.VMUUID, is.InstanceID, was.Value.VMUUID, was.Value.InstanceID)
			}
		}
		if creates, deletes := w.made("create"), w.made("delete"); len(creates) != 3+1+3 || len(deletes) != 3+1 || !slices.Contains(deletes, "delete demo-pg-3") {
			t.Errorf("creates %v, deletes %v", creates, deletes)
		}
	})
}
