package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/operate"
	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/raced"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestLeadersWhoseClocksAreMinutesApart take over from each other: in an idle group, within a
// rollout and within a step. The group continues as with one clock, nothing fails, and no leader
// writes the same record repeatedly.
func TestLeadersWhoseClocksAreMinutesApart(t *testing.T) {
	for apart, points := range map[time.Duration][]string{
		10 * time.Minute:  {"rest", reconcile.FailAfterRecorded, operate.FailAfterCall},
		-10 * time.Minute: {reconcile.FailAfterRecorded, operate.FailAfterHandover, operate.FailBeforeMinReady},
	} {
		for i, at := range points {
			if raced.Enabled && i > 0 {
				continue // the other cases meet no other goroutine
			}
			t.Run(fmt.Sprintf("%v at %s", apart, at), func(t *testing.T) { takeOver(t, apart, at) })
		}
	}
}

func takeOver(t *testing.T, apart time.Duration, at string) {
	begin(t, func(t *testing.T, w *world) {
		first := w.coordinator("coordinator-0", clock(func() time.Duration { return apart }), stopsAt(at))
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		if at != "rest" {
			first.armed.Store(true)
			w.apply(spec("two"))
			w.until(at, 3*time.Minute, first.over)
		}
		first.stop()
		var commits atomic.Int64
		w.store.OnCommit(func([]store.Op) storetest.Fault { commits.Add(1); return storetest.None })
		began := time.Now()
		w.coordinator("coordinator-1")
		if at == "rest" {
			w.apply(spec("two"))
		}
		w.until("update", 3*time.Minute, w.complete("two"))
		w.apply(spec("three"))
		w.until("the next update", 3*time.Minute, w.complete("three"))
		took := time.Since(began)
		if n := commits.Load(); n > 12*int64(took/time.Second) {
			t.Errorf("%d commits in %v", n, took)
		}
		w.mu.Lock()
		if w.away > 1 {
			t.Errorf("%d members were away at once", w.away)
		}
		w.mu.Unlock()
		v, err := view.Read(t.Context(), w.store)
		if err != nil {
			t.Fatal(err)
		}
		for id, op := range v.Operations {
			if op.Value.Phase == operation.Failed {
				t.Errorf("%s failed: %s", id, op.Value.Reason)
			}
		}
		// An idle leader writes its status once per resync.
		commits.Store(0)
		tick(t.Context(), 2*time.Minute)
		if n := commits.Load(); n > 2*60/10+5 {
			t.Errorf("%d commits in 2 minutes at rest", n)
		}
	})
}

// TestAClockThatIsSetEndsNoWait: a call's answer is lost, its effect is late, and the leader's
// clock is set meanwhile. The clock moves by less than the tolerated difference, or by more. The
// call is not repeated before its effect had time to show. No deadline fails for the hour that
// never passed.
func TestAClockThatIsSetEndsNoWait(t *testing.T) {
	for _, by := range []time.Duration{30 * time.Second, time.Hour, -30 * time.Second, -time.Hour} {
		if raced.Enabled && by != time.Hour {
			continue
		}
		t.Run(by.String(), func(t *testing.T) {
			begin(t, func(t *testing.T, w *world) {
				w.settle = time.Minute
				var off atomic.Int64
				w.coordinator("coordinator-0", clock(func() time.Duration { return time.Duration(off.Load()) }))
				w.apply(spec("one"))
				w.until("creation", 2*time.Minute, w.complete("one"))
				loseCall(w, func() {
					off.Store(int64(by))
					// The next write is applied, and its answer is lost.
					var once atomic.Bool
					w.store.OnCommit(func([]store.Op) storetest.Fault {
						if once.CompareAndSwap(false, true) {
							return storetest.UnknownApplied
						}
						return storetest.None
					})
				})
				w.apply(spec("two"))
				w.until("update", 10*time.Minute, w.complete("two"))
				notRepeated(t, w)
			})
		})
	}
}

// TestASuccessorWhoseClockIsAheadEndsNoWait: the same when the leader dies. The successor's clock
// is ahead by less than the takeover can detect.
func TestASuccessorWhoseClockIsAheadEndsNoWait(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		w.settle = time.Minute
		first := w.coordinator("coordinator-0")
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		loseCall(w, first.cancel)
		w.apply(spec("two"))
		w.until("a call", time.Minute, first.over)
		w.coordinator("coordinator-1", clock(func() time.Duration { return 20 * time.Second }))
		w.until("update", 10*time.Minute, w.complete("two"))
		notRepeated(t, w)
	})
}

// loseCall loses the answer of the next call, delays its effect, and then calls then.
func loseCall(w *world, then func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = w.settle - 2*time.Second
	w.fault = func(string) (bool, error) {
		w.fault = nil
		time.AfterFunc(time.Second, then)
		return false, errors.New("no answer")
	}
}

func notRepeated(t *testing.T, w *world) {
	t.Helper()
	if got := w.made("update"); len(got) != 3 {
		t.Errorf("updates: %v, want one for each slot", got)
	}
	v, err := view.Read(t.Context(), w.store)
	if err != nil {
		t.Fatal(err)
	}
	for id, op := range v.Operations {
		if op.Value.Phase == operation.Failed {
			t.Errorf("%s failed: %s", id, op.Value.Reason)
		}
	}
}

// TestR121_HoweverManyAreAway: time without a leader counts against no unavailable Slot. This also
// holds where the records do not fit into one transaction and its answer is lost.
func TestR121_HoweverManyAreAway(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		const n, nobody = 80, 10 * time.Minute
		first := w.coordinator("coordinator-0")
		s := spec("one")
		s.Replicas, s.Workload = n, group.Workload{Kind: group.WorkloadNone}
		w.apply(s)
		w.until("creation", 10*time.Minute, w.availableSlots(n))
		for i := range n - 1 {
			w.stop(group.SlotName("pg", i))
		}
		w.until("their absence", 2*time.Minute, w.availableSlots(1))
		tick(t.Context(), time.Minute)
		first.stop()
		tick(t.Context(), nobody)
		var lost atomic.Bool
		w.store.OnCommit(func(ops []store.Op) storetest.Fault {
			many := func(op store.Op) bool {
				return op.Kind == store.OpPutCAS && strings.HasPrefix(op.Key, store.SlotsOf("pg"))
			}
			if len(ops) > n/2 && slices.ContainsFunc(ops, many) && lost.CompareAndSwap(false, true) {
				return storetest.UnknownApplied
			}
			return storetest.None
		})
		w.coordinator("coordinator-1")
		w.until("the takeover", time.Minute, func() bool { return time.Since(w.status().At) < time.Minute })
		for name, slot := range w.view().Slots {
			if since := slot.Value.UnavailableSince; !since.IsZero() && time.Since(since) > nobody/2 {
				t.Errorf("%s is away for %s", name, time.Since(since))
			}
		}
		if !lost.Load() {
			t.Error("no answer was lost")
		}
	})
}
