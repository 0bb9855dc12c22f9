package reconcile_test

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// A change of hooks and checks alone touches no CVM, ends no Boot and moves no leadership. Each
// Boot's own attestation makes its Slot up to date.
func TestAChangeOfChecksIsProvenByTheBootsThatRun(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		boots := map[string]string{}
		for slot, a := range w.view().Admissions {
			boots[slot] = a.Value.BootID
		}
		calls := len(w.made(""))
		next := spec("one")
		next.UpdatePolicy.MostDisruptiveAllowedAction = group.ActionRefresh
		next.HealthChecks = []group.HealthCheck{{Name: "port", TCP: &group.TCPCheck{Port: 80}}}
		w.apply(next)
		w.until("refresh", 5*time.Minute, func() bool {
			s := w.status()
			return s.Target == next.Revision() && s.RolloutState == string(operation.Complete) && s.Updated == 3
		})
		if got := w.made(""); len(got) != calls {
			t.Errorf("calls: %v", got[calls:])
		}
		for slot, a := range w.view().Admissions {
			if a.Value.Revision != next.Revision() || a.Value.BootID != boots[slot] {
				t.Errorf("%s: boot %s at %.8s, want boot %s at %.8s", slot, a.Value.BootID, a.Value.Revision, boots[slot], next.Revision())
			}
		}
	})
}
