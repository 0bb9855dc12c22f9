package reconcile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/store"
	"cadre.dev/store/storetest"

	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/coordinator/internal/view"
)

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

// TestR90_TheProofOfAStepIsWrittenWithItsEnd, and not by a later pass: the next leader finds it.
func TestR90_TheProofOfAStepIsWrittenWithItsEnd(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.apply(spec("two"))
		w.until("update", 5*time.Minute, w.complete("two"))
		v, target := w.view(), spec("two").Revision()
		for name, slot := range v.Slots {
			end := v.OperationsOf(name)[0]
			if slot.Value.WasAvailableAt != target || end.Value.Phase != operation.Done || slot.Index != end.Index {
				t.Errorf("%s: available at %.8s, written at %d; its step is %s, written at %d", name, slot.Value.WasAvailableAt, slot.Index, end.Value.Phase, end.Index)
			}
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

// TestCTL03_ACallOfTheLastLeaderLandsLate: the successor waits for the call and finds its effect.
// The call is made at the end of the dead leader's Lease, long after its record.
func TestCTL03_ACallOfTheLastLeaderLandsLate(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		const pause = 30 * time.Second // from the record to the end of the Lease
		first := w.coordinator("coordinator-0", diesAt("after-platform-call"))
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.mu.Lock()
		w.late = pause + 8*time.Second
		w.fault = func(string) (bool, error) {
			w.fault = nil
			return false, errors.New("no answer")
		}
		w.mu.Unlock()
		first.armed.Store(true)
		w.apply(spec("two"))
		<-first.died
		tick(t.Context(), pause)
		w.store.ExpireSession()
		w.coordinator("coordinator-1")
		w.until("update", 10*time.Minute, w.complete("two"))
		if got := w.made("update"); len(got) != 3 {
			t.Errorf("updates: %v, want one for each slot", got)
		}
		first.stop()
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
	for _, point := range []string{reconcile.FailAfterRecorded, "after-handover", "after-platform-call", "before-min-ready-ends"} {
		t.Run(point, func(t *testing.T) {
			begin(t, func(t *testing.T, w *world) { takeover(t, w, point) })
		})
	}
}

func takeover(t *testing.T, w *world, point string) {
	first := w.coordinator("coordinator-0", diesAt(point))
	w.apply(spec("one"))
	w.until("creation", 2*time.Minute, w.complete("one"))
	first.armed.Store(true)
	w.apply(spec("two"))
	<-first.died
	w.store.ExpireSession()
	w.coordinator("coordinator-1")
	w.until("update", 10*time.Minute, w.complete("two"))
	if got := w.made("update"); len(got) != 3 {
		t.Errorf("updates: %v, want one for each slot", got)
	}
	if got := w.made("transfer"); len(got) != 1 {
		t.Errorf("transfers: %v, want one", got)
	}
	before := w.status()
	first.stop()
	if after := w.status(); after.Term != before.Term {
		t.Errorf("the dead leader wrote: term %d after %d", after.Term, before.Term)
	}
}

// TestCTL02_PausedLeaderIsFenced lets a leader wake up after its successor began.
func TestCTL02_PausedLeaderIsFenced(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		stale := false
		w.store.OnCommit(func(ops []store.Op) (f storetest.Fault) {
			if !stale && len(ops) > 2 && strings.HasPrefix(ops[2].Key, "operations/") {
				stale = true
				w.store.ExpireSession()
			}
			return f
		})
		w.coordinator("coordinator-1")
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
	})
}
