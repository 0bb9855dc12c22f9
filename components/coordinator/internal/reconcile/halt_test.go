package reconcile_test

import (
	"errors"
	"testing"
	"time"

	"cadre.dev/store"
)

func (w *world) term() uint64 {
	w.t.Helper()
	record, _, err := store.Read[store.TermRecord](w.t.Context(), w.store, store.TermKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		w.t.Fatal(err)
	}
	return record.Term
}

// TestThreat_CTL06_ADeletedTermHaltsUntilAnOperatorRaisesIt: the leader stops, and no coordinator
// begins again at 1. Requests made meanwhile are carried out once the Term was raised.
func TestThreat_CTL06_ADeletedTermHaltsUntilAnOperatorRaisesIt(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.store.Wipe(store.TermKey)
		w.apply(spec("two"))
		tick(t.Context(), 5*time.Minute)
		if w.term() != 0 || len(w.made("update")) != 0 {
			t.Fatalf("term %d, calls %v without a term", w.term(), w.made("update"))
		}
		if _, err := w.store.Acquire(t.Context(), "coordinator-9"); !errors.Is(err, store.ErrTermRegression) {
			t.Fatalf("another coordinator: %v", err)
		}
		w.put(store.RecoverKey(), []byte(`{"term":20,"reason":"lease/term was deleted","by":"op"}`))
		w.until("the rest", 10*time.Minute, w.complete("two"))
		if w.term() != 21 {
			t.Errorf("term %d, want 21", w.term())
		}
	})
}

// TestThreat_CTL06_ALeaderTakesATermAboveTheRaisedOne: the leader needs no restart. Raising the
// Term to less than the leader's Term changes nothing.
func TestThreat_CTL06_ALeaderTakesATermAboveTheRaisedOne(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		before := w.term()
		w.put(store.RecoverKey(), []byte(`{"term":9,"reason":"agents saw 9","by":"op"}`))
		w.until("the new term", time.Minute, func() bool { return w.term() == 10 })
		w.put(store.RecoverKey(), []byte(`{"term":4,"reason":"a mistake","by":"op"}`))
		tick(t.Context(), 2*time.Minute)
		if before >= 9 || w.term() != 10 {
			t.Errorf("terms %d, then %d", before, w.term())
		}
	})
}
