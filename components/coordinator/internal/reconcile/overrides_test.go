package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// TestR139_ADrainedMemberIsLeftAloneUntilItsTimeEnds, through the agent and back. The member stops
// leading, and no platform call is made for it. When its time ends it is updated like the others.
func TestR139_ADrainedMemberIsLeftAloneUntilItsTimeEnds(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.mu.Lock()
		slot := w.leader
		w.mu.Unlock()
		w.putJSON(store.OverrideKey(store.OverrideDrain, slot), store.Override{Reason: "its host is mended", By: "ann", At: time.Now(), Until: time.Now().Add(20 * time.Minute)})
		w.until("the drain", 2*time.Minute, func() bool { return w.instance(slot).State == "Drained" })
		if i := w.instance(slot); i.Drain == nil || i.Drain.By != "ann" || i.Drain.Reason != "its host is mended" {
			t.Errorf("status %+v", i)
		}
		w.mu.Lock()
		leads, calls := w.leader, len(w.calls)
		w.mu.Unlock()
		if leads == slot || leads == "" {
			t.Errorf("%q leads", leads)
		}
		w.apply(spec("two"))
		tick(t.Context(), 10*time.Minute)
		w.mu.Lock()
		if called := w.calls[calls:]; len(called) != 0 {
			t.Errorf("called %v while the group had nobody to spare", called)
		}
		w.mu.Unlock()
		w.until("the end of the drain, and the rollout", 30*time.Minute, w.complete("two"))
		var drains []operation.Operation
		for _, o := range w.view().Operations {
			if o.Value.Kind == operation.Drain {
				drains = append(drains, o.Value)
			}
		}
		if len(drains) != 1 || drains[0].Phase != operation.Done || drains[0].Call.Number != 0 || drains[0].Actor != operation.ActorOperator {
			t.Errorf("drains %+v", drains)
		}
	})
}

// TestR139_AnExcludedMemberIsRolledWhenItsTimeEnds: no other event wakes the leader then. The
// status no longer names the override, though its record stays for a while.
func TestR139_AnExcludedMemberIsRolledWhenItsTimeEnds(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		key := store.OverrideKey(store.OverrideExclude, "pg-2")
		until := time.Now().Add(20 * time.Minute)
		w.putJSON(key, store.Override{From: []string{group.FromRollout}, Reason: "it is measured", By: "ann", At: time.Now(), Until: until})
		w.apply(spec("two"))
		w.until("the rollout of the others", 10*time.Minute, func() bool { return w.status().RolloutState == string(operation.PartitionReached) })
		if i := w.instance("pg-2"); i.Exclusion == nil || i.Exclusion.By != "ann" || !slices.Equal(i.Exclusion.From, []string{group.FromRollout}) || i.Exclusion.Until.Sub(until).Abs() > time.Second {
			t.Errorf("status %+v", i)
		}
		tick(t.Context(), time.Until(until)-time.Second)
		if st := w.status(); st.Updated != 2 {
			t.Errorf("%d updated before its time", st.Updated)
		}
		w.until("its step", 5*time.Second, func() bool { return w.instance("pg-2").Operation != "" })
		w.until("the rollout", 5*time.Minute, w.complete("two"))
		if _, kept := w.view().Overrides[store.OverrideExclude]["pg-2"]; !kept || w.instance("pg-2").Exclusion != nil {
			t.Errorf("status %+v, the record is kept: %t", w.instance("pg-2"), kept)
		}
	})
}

// TestR139_AFrozenGroupWaitsUntilTheFreezeEnds: only this group is frozen, and it resumes automatically.
func TestR139_AFrozenGroupWaitsUntilTheFreezeEnds(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.putJSON(store.OverrideKey(store.OverrideFreeze, "pg"), store.Override{Reason: "the big days", By: "ann", At: time.Now(), Until: time.Now().Add(10 * time.Minute)})
		w.apply(spec("two"))
		w.until("the hold", 2*time.Minute, func() bool {
			return slices.ContainsFunc(w.instance("pg-2").Holds, func(h group.Hold) bool {
				return h.Predicate == "frozen" && strings.Contains(h.Message, "(ann): the big days, until ") && strings.HasSuffix(h.Message, "cadre unfreeze pg")
			})
		})
		tick(t.Context(), 5*time.Minute)
		if st := w.status(); st.Updated != 0 || !st.Paused {
			t.Errorf("updated %d, paused %v", st.Updated, st.Paused)
		}
		w.until("the rollout", 15*time.Minute, w.complete("two"))
	})
}
