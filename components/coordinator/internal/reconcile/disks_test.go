package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// TestASetWhoseDisksAreAllGoneSaysTheWayOut, and the way works: delete the group and create it
// again.
func TestASetWhoseDisksAreAllGoneSaysTheWayOut(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		lost := func() bool {
			return slices.ContainsFunc(w.status().Conditions, func(c group.Condition) bool { return c.Type == reconcile.ConditionDisksLost && c.Status })
		}
		w.vanish("pg-0")
		w.vanish("pg-1")
		tick(t.Context(), 5*time.Minute)
		if lost() {
			t.Error("a disk is left")
		}
		w.vanish("pg-2")
		w.until("the condition", 10*time.Minute, lost)
		if text := w.status().Message; !strings.Contains(text, "cadre group delete pg --delete-disks") || !strings.Contains(text, "docs/runbooks/") {
			t.Errorf("message %q", text)
		}
		w.putJSON(store.DeleteGroupKey("pg"), store.DeleteGroup{Group: "pg", DeleteDisks: true, Reason: "every CVM is lost", By: "ann", At: time.Now()})
		w.until("the end of the group", 10*time.Minute, func() bool { return len(w.view().Slots) == 0 && len(w.view().Specs) == 0 })
		w.apply(spec("one"))
		w.until("the group made again", 5*time.Minute, w.complete("one"))
		if lost() {
			t.Error("the condition stays")
		}
	})
}
