package reconcile_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestAStateThatCannotBeWrittenBlocksNoGroup: acting continues, and the status reports the failure.
func TestAStateThatCannotBeWrittenBlocksNoGroup(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		var broken atomic.Bool
		broken.Store(true)
		w.store.OnCommit(func(ops []store.Op) storetest.Fault {
			for _, op := range ops {
				if broken.Load() && strings.HasPrefix(op.Key, store.SlotStatusesOf("pg")) {
					return storetest.Refused
				}
			}
			return storetest.None
		})
		found := func() bool {
			for _, c := range w.status().Conditions {
				if c.Type == reconcile.ConditionReported && !c.Status && c.Message != "" {
					return true
				}
			}
			return false
		}
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.until("the condition", time.Minute, found)
		w.apply(spec("two"))
		w.until("update", 5*time.Minute, w.complete("two"))
		if got := w.status().Instances; len(got) != 0 {
			t.Errorf("instances %v were told all the same", got)
		}
		broken.Store(false)
		w.until("the states", time.Minute, func() bool { return len(w.status().Instances) == 3 && !found() })
	})
}
