package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/store"
	"cadre.dev/store/storetest"

	"cadre.dev/coordinator/internal/view"
)

// run gives a test a world in virtual time with one coordinator.
func run(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld(t)
		waitWorld := w.start(ctx)
		waitLeader := w.coordinator(ctx, "coordinator-0", nil)
		test(t, w)
		cancel()
		waitLeader()
		waitWorld()
	})
}

func TestGroupIsCreatedAndUpdated(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		if got := w.made("create"); len(got) != 3 {
			t.Fatalf("creates: %v", got)
		}
		w.mu.Lock()
		leader := w.leader
		w.away = 0
		w.mu.Unlock()
		w.apply(spec("two"))
		w.until("update", 5*time.Minute, w.complete("two"))
		if got := w.made("update"); len(got) != 3 || got[2] != "update demo-"+leader {
			t.Errorf("updates: %v, the leader %s goes last", got, leader)
		}
		if got := w.made("transfer"); len(got) != 1 {
			t.Errorf("transfers: %v, want one", got)
		}
		if w.away > 1 {
			t.Errorf("%d members were away at once", w.away)
		}
		if st := w.status(); st.Transfers != 1 || st.RolloutState != string(operation.Complete) {
			t.Errorf("status: transfers %d state %s", st.Transfers, st.RolloutState)
		}
	})
}

func TestInvalidSpecChangesNothingAndNamesEveryField(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		calls := len(w.made(""))
		bad := spec("two")
		bad.Replicas, bad.Template.InstanceType = 0, ""
		w.apply(bad)
		w.until("condition", time.Minute, func() bool {
			for _, c := range w.status().Conditions {
				if c.Type == "SpecValid" && !c.Status && strings.Contains(c.Message, "replicas") && strings.Contains(c.Message, "template.instance_type") {
					return true
				}
			}
			return false
		})
		tick(t.Context(), time.Minute)
		if got := w.made(""); len(got) != calls {
			t.Errorf("calls after an invalid spec: %v", got[calls:])
		}
		w.apply(spec("two"))
		w.until("the corrected spec", 5*time.Minute, w.complete("two"))
	})
}

func TestCTL03_CTL16_UnknownCallThatTookEffectIsNotRepeated(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.mu.Lock()
		w.fault = func(string) (bool, error) { return true, errors.New("connection reset") }
		w.mu.Unlock()
		w.apply(spec("two"))
		w.until("update", 10*time.Minute, w.complete("two"))
		if got := w.made("update"); len(got) != 3 {
			t.Errorf("updates: %v, want one for each slot", got)
		}
	})
}

// Every answer to a create gets lost; the CVMs are found by their names.
func TestPLT06_CreateWhoseAnswerIsLostIsFoundByItsName(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.mu.Lock()
		w.fault = func(string) (bool, error) { return true, errors.New("connection reset") }
		w.mu.Unlock()
		w.apply(spec("one"))
		w.until("creation", 5*time.Minute, w.complete("one"))
		if got := w.made("create"); len(got) != 3 {
			t.Errorf("creates: %v, want one for each slot", got)
		}
	})
}

// TestCTL03_ACallOfTheLastLeaderLandsLate: the successor waits it out and finds it.
// The call is made at the end of the dead leader's Lease, long after its record.
func TestCTL03_ACallOfTheLastLeaderLandsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 30 * time.Second // from the record to the end of the Lease
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld(t)
		waitWorld := w.start(ctx)
		first, kill := context.WithCancel(ctx)
		reached, hang := make(chan struct{}), make(chan struct{})
		armed := false
		waitFirst := w.coordinator(first, "coordinator-0", func(name string) {
			w.mu.Lock()
			hit := armed && name == "after-platform-call"
			w.mu.Unlock()
			if hit {
				close(reached)
				<-hang
			}
		})
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.mu.Lock()
		armed, w.late = true, pause+8*time.Second
		w.fault = func(string) (bool, error) {
			w.fault = nil
			return false, errors.New("no answer")
		}
		w.mu.Unlock()
		w.apply(spec("two"))
		<-reached
		tick(t.Context(), pause)
		w.store.ExpireSession()
		waitSecond := w.coordinator(ctx, "coordinator-1", nil)
		w.until("update", 10*time.Minute, w.complete("two"))
		if got := w.made("update"); len(got) != 3 {
			t.Errorf("updates: %v, want one for each slot", got)
		}
		kill()
		close(hang)
		waitFirst()
		cancel()
		waitSecond()
		waitWorld()
	})
}

func TestCTL16_UnknownCallWithoutEffectIsRepeatedOnce(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		lost := false
		w.mu.Lock()
		w.fault = func(string) (bool, error) {
			if !lost {
				lost = true
				return false, errors.New("i/o timeout")
			}
			return true, nil
		}
		w.mu.Unlock()
		w.apply(spec("two"))
		w.until("update", 10*time.Minute, w.complete("two"))
		if got := w.made("update"); len(got) != 4 || got[0] != got[1] {
			t.Errorf("updates: %v, want the first one twice", got)
		}
	})
}

// TestCTL16_TakeoverInEveryPhase kills the leader at each point of the first
// Operation of an update; another coordinator finishes with the same calls.
func TestCTL16_TakeoverInEveryPhase(t *testing.T) {
	for _, point := range []string{"after-operation-recorded", "during-drain", "after-handover", "after-platform-call", "before-min-ready-ends"} {
		t.Run(point, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { takeover(t, point) })
		})
	}
}

func takeover(t *testing.T, point string) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t)
	waitWorld := w.start(ctx)
	armed := false
	first, kill := context.WithCancel(ctx)
	reached := make(chan struct{})
	hang := make(chan struct{})
	waitFirst := w.coordinator(first, "coordinator-0", func(name string) {
		w.mu.Lock()
		hit := armed && name == point
		if hit {
			armed = false
		}
		w.mu.Unlock()
		if hit {
			// The process is gone: it does nothing more, and its session ends.
			close(reached)
			<-hang
		}
	})
	w.apply(spec("one"))
	w.until("creation", 2*time.Minute, w.complete("one"))
	w.mu.Lock()
	armed = true
	w.mu.Unlock()
	w.apply(spec("two"))
	<-reached
	w.store.ExpireSession()
	waitSecond := w.coordinator(ctx, "coordinator-1", nil)
	w.until("update", 10*time.Minute, w.complete("two"))
	if got := w.made("update"); len(got) != 3 {
		t.Errorf("updates: %v, want one for each slot", got)
	}
	if got := w.made("transfer"); len(got) != 1 {
		t.Errorf("transfers: %v, want one", got)
	}
	before := w.status()
	kill()
	close(hang)
	waitFirst()
	if after := w.status(); after.Term != before.Term {
		t.Errorf("the dead leader wrote: term %d after %d", after.Term, before.Term)
	}
	cancel()
	waitSecond()
	waitWorld()
}

// TestCTL02_PausedLeaderIsFenced lets a leader wake up after its successor began.
func TestCTL02_PausedLeaderIsFenced(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		ctx, cancel := context.WithCancel(t.Context())
		stale := false
		w.store.OnCommit(func(ops []store.Op) (f storetest.Fault) {
			if !stale && len(ops) > 2 && strings.HasPrefix(ops[2].Key, "operations/") {
				stale = true
				w.store.ExpireSession()
			}
			return f
		})
		waitSecond := w.coordinator(ctx, "coordinator-1", nil)
		w.apply(spec("two"))
		w.until("update", 10*time.Minute, w.complete("two"))
		w.store.OnCommit(nil)
		if !stale {
			t.Error("no write was raced")
		}
		if got := w.made("update"); len(got) != 3 {
			t.Errorf("updates: %v, want one for each slot", got)
		}
		v, err := view.Read(t.Context(), w.store)
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		for _, o := range v.Operations {
			if !o.Value.Phase.Ended() {
				open++
			}
		}
		if open != 0 || v.Term < 2 {
			t.Errorf("open operations %d, term %d", open, v.Term)
		}
		cancel()
		waitSecond()
	})
}
