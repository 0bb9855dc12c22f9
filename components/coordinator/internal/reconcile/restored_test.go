package reconcile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/watermark"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// restart requests the restart of a Slot and waits until it is done.
func (w *world) restart(slot string) {
	w.t.Helper()
	before := len(w.made("restart"))
	id := fmt.Sprintf("restart-%d", before)
	raw, err := json.Marshal(store.QueueRequest{ID: id, Kind: store.RequestRestart, Group: "pg", Slot: slot, Reason: "test", By: "op"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(store.QueueKey(id), raw)
	w.until("restart of "+slot, 3*time.Minute, func() bool { return len(w.made("restart")) > before && w.complete("one")() })
}

// watermark reads the state of the coordinator that began last.
func (w *world) watermark() (watermark.State, error) {
	w.mu.Lock()
	last := w.coordinators[len(w.coordinators)-1]
	w.mu.Unlock()
	return last.Watermark(w.t.Context())
}

// recovery is the record that "cadre cluster accept-restore" would write now.
func (w *world) recovery() []byte {
	w.t.Helper()
	now, err := w.watermark()
	if err != nil || now.Halted == nil {
		w.t.Fatalf("the records went back, and nothing is halted: %+v, %v", now, err)
	}
	term, state := now.Above()
	raw, err := json.Marshal(store.Recovery{Term: term, State: state, Reason: "restored", By: "op"})
	if err != nil {
		w.t.Fatal(err)
	}
	return raw
}

// TestCTL06_ARestoreWithinOneTermIsNoticed: the backup is of the present Term, so the Term shows no
// loss. The coordinators remember the state; if they are new, the agents do. Nothing is planned or
// called until an operator accepts the restore, and then the leader continues.
func TestCTL06_ARestoreWithinOneTermIsNoticed(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		t.Run(fmt.Sprintf("new coordinators %t", fresh), func(t *testing.T) {
			begin(t, func(t *testing.T, w *world) {
				first := w.coordinator("coordinator-0")
				w.apply(spec("one"))
				w.until("creation", 2*time.Minute, w.complete("one"))
				before := w.store.Snapshot()
				w.restart("pg-2")
				tick(t.Context(), 10*time.Second) // until the agents have received the state
				if fresh {
					first.stop()
				}
				w.store.Restore(before)
				if fresh {
					w.coordinator("coordinator-1")
				}
				calls := len(w.made(""))
				w.apply(spec("two"))
				tick(t.Context(), 10*time.Minute)
				if got := w.made(""); len(got) != calls {
					t.Fatalf("calls from records that went back: %v", got[calls:])
				}
				if _, _, err := store.Read[store.StateRecord](t.Context(), w.store, store.StateKey); err != nil {
					t.Fatal(err)
				}
				w.put(store.RecoverKey(), w.recovery())
				w.until("the update, after the recovery", 10*time.Minute, w.complete("two"))
			})
		})
	}
}

// TestCTL06_OneAgentWithAFalseStateStopsNoGroup, and raises no number that is absurd.
func TestCTL06_OneAgentWithAFalseStateStopsNoGroup(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.mu.Lock()
		w.memberLocked("pg-1").seenState = 1 << 63
		w.mu.Unlock()
		w.apply(spec("two"))
		w.until("update past a liar", 5*time.Minute, w.complete("two"))
		now, err := w.watermark()
		if err != nil || now.Halted != nil || now.Agents.Any.State != 1<<63 {
			t.Fatalf("%+v, %v", now, err)
		}
		if _, state := now.Above(); state > 1<<20 {
			t.Errorf("a recovery would raise the state to %d", state)
		}
	})
}

// TestTheStateGrowsWithTheLeadersWork: with each Operation and each call, in the same
// transaction, and in an idle cluster at least once a minute.
func TestTheStateGrowsWithTheLeadersWork(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		state := func() uint64 {
			record, _, err := store.Read[store.StateRecord](t.Context(), w.store, store.StateKey)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			return record.State
		}
		w.store.OnCommit(func(ops []store.Op) storetest.Fault {
			begun, grown := false, false
			for _, op := range ops {
				// Index 0: the Operation is new.
				begun = begun || op.Kind == store.OpPutCAS && op.Index == 0 && len(op.Key) > len(store.OperationsPrefix) && op.Key[:len(store.OperationsPrefix)] == store.OperationsPrefix
				grown = grown || op.Key == store.StateKey
			}
			if begun && !grown {
				t.Error("an operation was recorded without a higher state")
			}
			return storetest.None
		})
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		if got := state(); got < 1+3 {
			t.Errorf("state %d after a term and three operations with a call each", got)
		}
		for range 10 {
			before := state()
			tick(t.Context(), time.Minute)
			if state() <= before {
				t.Fatalf("state %d for a minute", before)
			}
		}
	})
}
