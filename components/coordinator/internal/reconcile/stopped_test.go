package reconcile_test

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR147_AGroupIsStoppedAndStarted, through the agents and back: every CVM is stopped, no call follows while the group
// is stopped, and the same CVMs start again.
func TestR147_AGroupIsStoppedAndStarted(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		all := func(state group.SlotState) func() bool {
			return func() bool {
				for _, slot := range []string{"pg-0", "pg-1", "pg-2"} {
					if w.instance(slot).State != state {
						return false
					}
				}
				return true
			}
		}
		before := w.instance("pg-1").VMUUID
		stopped := spec("one")
		stopped.Stopped = true
		w.apply(stopped)
		w.until("the stop", 5*time.Minute, all(group.SlotStopped))
		w.mu.Lock()
		calls := len(w.calls)
		w.mu.Unlock()
		tick(t.Context(), time.Hour)
		w.mu.Lock()
		if called := w.calls[calls:]; len(called) != 0 {
			t.Errorf("called %v while the group was stopped", called)
		}
		w.mu.Unlock()
		w.apply(spec("one"))
		w.until("the start", 10*time.Minute, all(group.SlotAvailable))
		if after := w.instance("pg-1").VMUUID; after != before {
			t.Errorf("pg-1 has CVM %s, and had %s", after, before)
		}
		for _, o := range w.view().Operations {
			if op := o.Value; op.Kind == operation.Stop && op.Phase != operation.Done {
				t.Errorf("%s is %s: %s", op.ID, op.Phase, op.Reason)
			}
		}
	})
}
