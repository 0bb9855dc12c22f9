package reconcile_test

import (
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/raced"
	"cadre.dev/store"
)

// frozenFor freezes the group like a coordinator with a correct clock, and begins a rollout.
func (w *world) frozenFor(length time.Duration) (began time.Time) {
	w.t.Helper()
	began = time.Now()
	w.putJSON(store.OverrideKey(store.OverrideFreeze, "pg"), store.Override{Reason: "the big days", By: "ann", At: began, Until: began.Add(length)})
	w.apply(spec("two"))
	return began
}

// endsAfter waits for the rollout, and checks that the freeze lasted from least to most.
func (w *world) endsAfter(began time.Time, least, most time.Duration) {
	w.t.Helper()
	w.until("the end of the freeze", most+time.Minute, func() bool { return len(w.made("update")) > 0 })
	if stood := time.Since(began); stood < least || stood > most {
		w.t.Errorf("the freeze stood for %v, want from %v to %v", stood, least, most)
	}
}

const (
	frozen = 30 * time.Minute
	days   = 48 * time.Hour
	// step is the duration of the first call after the freeze.
	step = time.Minute
)

// TestASwitchEndsByElapsedTime under a leader whose clock is days off, or is set while it leads.
func TestASwitchEndsByElapsedTime(t *testing.T) {
	for name, c := range map[string]struct{ before, after time.Duration }{
		"a clock that is right": {}, "a clock that is ahead": {days, days}, "a clock that is behind": {-days, -days},
		"a clock that is set ahead": {0, days}, "a clock that is set back": {0, -days},
	} {
		if raced.Enabled && c.after != 0 {
			continue // the same code runs with another clock, for as many hours
		}
		t.Run(name, func(t *testing.T) {
			begin(t, func(t *testing.T, w *world) {
				var off atomic.Int64
				off.Store(int64(c.before))
				w.coordinator("coordinator-0", clock(func() time.Duration { return time.Duration(off.Load()) }))
				w.apply(spec("one"))
				w.until("creation", 2*time.Minute, w.complete("one"))
				began := w.frozenFor(frozen)
				tick(t.Context(), frozen/2)
				off.Store(int64(c.after))
				w.endsAfter(began, frozen, frozen+step)
				tick(t.Context(), 15*time.Minute)
				if _, there := w.view().Overrides[store.OverrideFreeze]["pg"]; there {
					t.Error("the record of a switch that ended stays")
				}
			})
		})
	}
}

// TestASwitchEndsByElapsedTimeOverATakeover between leaders whose clocks are days apart. The
// successor ran meanwhile, or it began then and cannot know how long no coordinator ran.
func TestASwitchEndsByElapsedTimeOverATakeover(t *testing.T) {
	for name, apart := range map[string]time.Duration{"ahead": days, "behind": -days} {
		for _, ran := range []bool{true, false} {
			if raced.Enabled && apart > 0 {
				continue // as above
			}
			t.Run(name, func(t *testing.T) {
				begin(t, func(t *testing.T, w *world) {
					first := w.coordinator("coordinator-0")
					off := clock(func() time.Duration { return apart })
					w.apply(spec("one"))
					w.until("creation", 2*time.Minute, w.complete("one"))
					began := w.frozenFor(frozen)
					tick(t.Context(), time.Second)
					if ran {
						w.coordinator("coordinator-1", off)
					}
					tick(t.Context(), frozen/2)
					first.stop()
					tick(t.Context(), 5*time.Minute)
					most := frozen + step
					if !ran {
						w.coordinator("coordinator-1", off)
						most += 5*time.Minute + time.Minute
					}
					w.endsAfter(began, frozen, most)
				})
			})
		}
	}
}

// TestASwitchWithoutItsBeginning was written by hand: the leader's clock sets its length, once.
func TestASwitchWithoutItsBeginning(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		var off atomic.Int64
		w.coordinator("coordinator-0", clock(func() time.Duration { return time.Duration(off.Load()) }))
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		began := time.Now()
		w.putJSON(store.OverrideKey(store.OverrideFreeze, store.Everywhere), map[string]any{"reason": "by hand", "by": "ann", "until": began.Add(frozen)})
		w.apply(spec("two"))
		tick(t.Context(), frozen/2)
		off.Store(int64(days))
		w.endsAfter(began, frozen, frozen+step)
	})
}
