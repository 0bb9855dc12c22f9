package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// endGroup deletes the group with its CVMs, and waits for the end.
func (w *world) endGroup() {
	w.t.Helper()
	w.putJSON(store.DeleteGroupKey("pg"), store.DeleteGroup{Group: "pg", DeleteDisks: true, Reason: "over", By: "somebody", At: time.Now()})
	w.until("the end", 10*time.Minute, func() bool {
		v := w.view()
		return len(v.Specs) == 0 && len(v.Slots) == 0 && len(v.Deletes) == 0
	})
}

// TestAGroupWithTheNameOfADeletedGroupStartsFresh: the new group starts at its own spec, in its own rollout,
// without clocks or results of the old group. Its records exist next to the old group's.
func TestAGroupWithTheNameOfADeletedGroupStartsFresh(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.apply(spec("two"))
		w.until("the update", 10*time.Minute, w.complete("two"))
		w.endGroup()
		tick(t.Context(), 2*time.Hour) // far beyond the progress deadline
		calls := len(w.made(""))
		w.apply(spec("two"))
		w.until("what it was again", 2*time.Minute, w.complete("two"))
		again := w.status()
		w.apply(spec("four"))
		w.until("the update begins", time.Minute, func() bool { return w.status().RolloutState == string(operation.Running) })
		w.endGroup()
		w.apply(spec("three"))
		w.until("something else", 2*time.Minute, w.complete("three"))
		last := w.status()
		if got := strings.Join(w.made("")[calls:], ", "); strings.Count(got, "update") > 1 {
			t.Errorf("made at what the group of before was stable at, and updated: %s", got)
		}
		if last.Generation <= again.Generation || last.Rollout == again.Rollout {
			t.Errorf("generation %d in rollout %s, after %d in %s", last.Generation, last.Rollout, again.Generation, again.Rollout)
		}
		var states []string
		for _, r := range w.view().RolloutsOf("pg") {
			states = append(states, string(r.Value.State))
			if r.Value.Verdict != nil {
				t.Errorf("%s is judged: %+v", r.Value.ID, r.Value.Verdict)
			}
		}
		// Newest first: each rollout ended normally, except the third, which its group's deletion
		// ended.
		if got := strings.Join(states, " "); got != "COMPLETE SUPERSEDED COMPLETE COMPLETE COMPLETE" {
			t.Errorf("rollouts are %s", got)
		}
	})
}

// TestR135_ADiskIsGivenUpForOneScaleIn: an edit of the spec that takes the Slot back also takes the
// permission for its disk back.
func TestR135_ADiskIsGivenUpForOneScaleIn(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		three := spec("one")
		w.apply(three)
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.putJSON(store.DeleteDisksKey("pg"), store.DeleteDisks{Group: "pg", Slots: []string{"pg-2"}, Reason: "smaller", By: "somebody", At: time.Now()})
		tick(t.Context(), time.Minute)
		if len(w.view().DeleteDisks) != 1 {
			t.Fatal("given up before the spec says for what, and taken back")
		}
		w.putJSON(store.OverrideKey(store.OverrideProtect, "pg-2"), store.Override{Reason: "a report runs", By: "somebody", At: time.Now()})
		two := spec("one")
		two.Replicas = 2
		w.apply(two)
		w.until("the smaller spec is accepted", time.Minute, func() bool { return w.status().Replicas == 2 })
		if len(w.view().DeleteDisks) != 1 {
			t.Fatal("taken back by the spec that it was given for")
		}
		w.apply(three)
		w.until("the word is taken back", time.Minute, func() bool { return len(w.view().DeleteDisks) == 0 })
		w.apply(two)
		w.until("the smaller spec again", time.Minute, func() bool { return w.status().Replicas == 2 })
		w.remove(store.OverrideKey(store.OverrideProtect, "pg-2"))
		tick(t.Context(), 5*time.Minute)
		if got := w.made("delete"); len(got) != 0 {
			t.Errorf("deleted by a word of before: %v", got)
		}
	})
}
