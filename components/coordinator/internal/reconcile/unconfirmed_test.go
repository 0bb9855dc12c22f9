package reconcile_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/core/group"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// cut disconnects the agents of these Slots from all coordinators, and connects all other agents.
func (w *world) cut(slots ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutOff = map[string]bool{}
	for _, slot := range slots {
		w.cutOff[slot] = true
	}
}

// grown requests one more member.
func (w *world) grown() {
	s := spec("one")
	s.Replicas = 4
	w.apply(s)
}

// restored continues from records without a restart that the agents saw. The coordinators are
// stopped.
func (w *world) restored() {
	w.t.Helper()
	first := w.coordinator("coordinator-0")
	w.apply(spec("one"))
	w.until("creation", 2*time.Minute, w.complete("one"))
	before := w.store.Snapshot()
	w.restart("pg-2")
	tick(w.t.Context(), 10*time.Second) // until the agents have received the state
	first.stop()
	w.store.Restore(before)
	w.grown()
}

func (w *world) halts(t *testing.T) {
	t.Helper()
	tick(t.Context(), 10*time.Minute)
	if got := w.made("create"); len(got) != 3 {
		t.Errorf("made from records that went back: %v", got)
	}
	if now, err := w.watermark(); err != nil || now.Halted == nil {
		t.Errorf("the leader goes on: %+v, %v", now, err)
	}
}

// TestCTL06_NothingIsMadeBeforeAgentsSpeak: after a restore all coordinators are new, and the
// agents need half a minute to find them.
func TestCTL06_NothingIsMadeBeforeAgentsSpeak(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		w.restored()
		w.cut("pg-0", "pg-1", "pg-2")
		w.coordinator("coordinator-1")
		tick(t.Context(), 30*time.Second)
		w.cut()
		w.halts(t)
	})
}

// TestCTL06_OneAgentThatSawMoreDelaysALeaderThatBegan until the others report; then they decide.
func TestCTL06_OneAgentThatSawMoreDelaysALeaderThatBegan(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		w.restored()
		w.cut("pg-0")
		w.mu.Lock()
		m := w.memberLocked("pg-1")
		m.seenTerm, m.seenState, m.desired = 0, 0, nil // its disk was lost
		w.mu.Unlock()
		w.coordinator("coordinator-1")
		tick(t.Context(), 30*time.Second)
		w.cut()
		w.halts(t)
	})
}

// TestATakeoverDelaysNothing where the successor already ran, and little where all coordinators
// started again.
func TestATakeoverDelaysNothing(t *testing.T) {
	for name, ran := range map[string]bool{"by one that ran": true, "by one that began": false} {
		t.Run(name, func(t *testing.T) {
			begin(t, func(t *testing.T, w *world) {
				first := w.coordinator("coordinator-0")
				w.apply(spec("one"))
				w.until("creation", 2*time.Minute, w.complete("one"))
				if ran {
					w.coordinator("coordinator-1")
					tick(t.Context(), time.Minute)
				}
				first.stop()
				w.grown()
				if !ran {
					w.coordinator("coordinator-1")
				}
				w.until("the new member", 3*time.Second, func() bool { return len(w.made("create")) == 4 })
			})
		})
	}
}

// TestAgentsThatStaySilentDelayALeaderForAMinute, and the status says so.
func TestAgentsThatStaySilentDelayALeaderForAMinute(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		first := w.coordinator("coordinator-0")
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		first.stop()
		w.cut("pg-0", "pg-1", "pg-2")
		w.grown()
		w.coordinator("coordinator-1")
		unconfirmed := func(h group.Hold) bool { return h.Predicate == reconcile.HoldUnconfirmed }
		w.until("the hold", 30*time.Second, func() bool { return slices.ContainsFunc(w.instance("pg-3").Holds, unconfirmed) })
		if got := w.made("create"); len(got) != 3 {
			t.Errorf("made while nothing confirmed the records: %v", got)
		}
		var commits atomic.Int64
		w.store.OnCommit(func([]store.Op) storetest.Fault { commits.Add(1); return storetest.None })
		const quiet = 10 * time.Second
		tick(t.Context(), quiet)
		if n := commits.Load(); n > 12*int64(quiet/time.Second) {
			t.Errorf("%d commits in %v in which nothing changed", n, quiet)
		}
		w.store.OnCommit(nil)
		w.until("its end", 45*time.Second, func() bool { return !slices.ContainsFunc(w.instance("pg-3").Holds, unconfirmed) })
	})
}
