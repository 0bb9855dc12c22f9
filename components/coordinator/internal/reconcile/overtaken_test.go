package reconcile_test

import (
	"testing"
	"time"
)

// TestCTL06_ALeaderBelowWhatAgentsSawPlansNothing: the store lost Terms that the agents remember,
// as after a restored snapshot with new coordinators. The leader ignores a single agent, and stops
// when most agents report a higher Term.
func TestCTL06_ALeaderBelowWhatAgentsSawPlansNothing(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		say := func(terms map[string]uint64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.saysTerm = terms
		}
		say(map[string]uint64{"pg-0": 50, "pg-1": 50})
		tick(t.Context(), time.Second) // until they have reported it
		w.apply(spec("two"))
		tick(t.Context(), 5*time.Minute)
		if got := w.made("update"); len(got) != 0 {
			t.Fatalf("updates by a leader of the past: %v", got)
		}
		say(map[string]uint64{"pg-0": 50})
		w.until("update past one liar", 5*time.Minute, w.complete("two"))
	})
}
