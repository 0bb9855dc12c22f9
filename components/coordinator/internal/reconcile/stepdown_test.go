package reconcile_test

import (
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reconcile"
)

// holder is the coordinator that holds the Lease; "": none does.
func (w *world) holder() string {
	w.t.Helper()
	holder, _, err := w.store.Holder(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return holder
}

func (w *world) stepDown(l *life) {
	w.t.Helper()
	if led, err := l.StepDown(w.t.Context()); err != nil || !led {
		w.t.Fatalf("step down: led %t, %v", led, err)
	}
}

// TestALeaderThatStepsDownIsFollowedByAnother: the Lease moves at once, with the next Term, and the
// rollout goes on.
func TestALeaderThatStepsDownIsFollowedByAnother(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		first := w.coordinators[0]
		w.apply(spec("one"))
		w.until("the rollout", 10*time.Minute, w.complete("one"))
		second := w.coordinator("coordinator-1")
		if led, err := second.StepDown(t.Context()); err != nil || led {
			t.Errorf("a follower stepped down: led %t, %v", led, err)
		}
		before := w.term()
		w.stepDown(first)
		w.until("another leader", 5*time.Second, func() bool { return w.holder() == "coordinator-1" })
		if got := w.term(); got != before+1 {
			t.Errorf("term %d follows term %d", got, before)
		}
		w.apply(spec("two"))
		w.until("the next rollout", 10*time.Minute, w.complete("two"))
		// It campaigns again once another one leads: the loss of that one costs no bound.
		w.stepDown(second)
		w.until("the first leader", 5*time.Second, func() bool { return w.holder() == "coordinator-0" })
	})
}

// TestALoneCoordinatorThatStepsDownLeadsAgain: the bound ends the wait for another leader.
func TestALoneCoordinatorThatStepsDownLeadsAgain(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.until("a leader", time.Minute, func() bool { return w.holder() != "" })
		w.stepDown(w.coordinators[0])
		time.Sleep(reconcile.StandsDown - time.Second) // virtual time
		if got := w.holder(); got != "" {
			t.Errorf("%s leads within the bound", got)
		}
		w.until("the leader again", 5*time.Second, func() bool { return w.holder() == "coordinator-0" })
	})
}
