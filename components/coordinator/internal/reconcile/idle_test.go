package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestAnIdleGroupWritesNothing and rarely lists the platform; the silence of an agent is still
// noticed at once.
func TestAnIdleGroupWritesNothing(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		tick(t.Context(), 5*time.Minute)
		var written []string
		w.store.OnCommit(func(ops []store.Op) storetest.Fault {
			for _, op := range ops {
				// The Lease's fence is a check; the state is the leader's sign of life.
				writes := op.Kind != store.OpCheckIndex && op.Kind != store.OpCheckSession && op.Kind != store.OpCheckAbsent
				if writes && !strings.HasPrefix(op.Key, store.StateKey) {
					written = append(written, op.Key)
				}
			}
			return storetest.None
		})
		w.mu.Lock()
		before := w.listed
		w.mu.Unlock()
		tick(t.Context(), time.Hour)
		w.store.OnCommit(nil)
		w.mu.Lock()
		lists := w.listed - before
		w.mu.Unlock()
		if len(written) > 0 {
			t.Errorf("written in an hour: %v", written)
		}
		if lists > 60 {
			t.Errorf("the platform was listed %d times in an hour", lists)
		}
		w.vanish("pg-1")
		w.until("the loss is told", 10*time.Second, func() bool { return w.instance("pg-1").State == "Vanished" })
	})
}
