package bootstrap

import (
	"context"
	"strings"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestGEN03_CoordinatorsWithAHintTakeTheClusterIDAndRecordNothing: neither the coordinator with the
// hint creates a record, nor a coordinator that learns the ID from it. A wiped cluster is never an empty
// cluster with the old keys.
func TestGEN03_CoordinatorsWithAHintTakeTheClusterIDAndRecordNothing(t *testing.T) {
	for name, hinted := range map[string][]int{"all": {0, 1, 2}, "coordinator-0 alone": {0}} {
		synctest.Test(t, func(t *testing.T) {
			s := newSet(t, 3)
			s.restore, s.hinted = one, hinted
			s.start(t.Context(), 0, 1, 2)()
			records := storetest.NewMemory()
			for n := range 3 {
				stored, err := Load(s.dirs[n])
				if err != nil || stored.ClusterID != one || !stored.Waits() {
					t.Errorf("hint at %s: coordinator-%d has %+v, %v", name, n, stored, err)
				}
				if err := Record(t.Context(), records, s.dirs[n], stored, "c", time.Now()); err == nil || !strings.Contains(err.Error(), "cadre cluster restore") {
					t.Errorf("hint at %s: coordinator-%d: %v", name, n, err)
				}
			}
			if all, _, err := records.List(t.Context(), ""); err != nil || len(all) != 0 {
				t.Errorf("written: %v, %v", all, err)
			}
			// The restored record ends the wait.
			op, err := store.Put(store.ClusterIDKey, store.ClusterIDRecord{ClusterID: one}, 0)
			if err == nil {
				err = records.Commit(t.Context(), op)
			}
			if err != nil {
				t.Fatal(err)
			}
			stored, _ := Load(s.dirs[1])
			if err := Record(t.Context(), records, s.dirs[1], stored, "c", time.Now()); err != nil {
				t.Error(err)
			}
			if stored, err := Load(s.dirs[1]); err != nil || !stored.Recorded || stored.Waits() {
				t.Errorf("%+v, %v", stored, err)
			}
		})
	}
}

// TestGEN03_AHintDoesNotReplaceAClusterIDThatAnotherProves: the hint is untrusted.
func TestGEN03_AHintDoesNotReplaceAClusterIDThatAnotherProves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, 3)
		s.restore, s.hinted = one, []int{0, 1}
		if err := (Stored{ClusterID: another, Recorded: true}).save(s.dirs[2]); err != nil {
			t.Fatal(err)
		}
		s.start(t.Context(), 0, 1)()
		for n := range 2 {
			if id := s.knows(n); id != another {
				t.Errorf("coordinator-%d has %q", n, id)
			}
		}
		// A coordinator with the ID on its disk ignores the hint.
		s.restore, s.hinted = one, []int{2}
		s.start(t.Context(), 2)()
		if id := s.knows(2); id != another {
			t.Errorf("coordinator-2 has %q", id)
		}
	})
}

// TestGEN02_AHintOfThePinnedClusterIDIsTaken, and another one is not.
func TestGEN02_AHintOfThePinnedClusterIDIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for hint, want := range map[string]string{one: one, another: ""} {
			s := newSet(t, 1)
			cfg := s.config(0)
			cfg.Pinned, cfg.Restore = one, hint
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, _ = Settle(ctx, cfg)
			cancel()
			if got := s.knows(0); got != want {
				t.Errorf("pinned %s, hint %s: %q", one, hint, got)
			}
		}
	})
}
