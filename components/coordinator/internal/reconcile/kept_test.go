package reconcile_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// view is the View of the records, decoded again only when a record differs. A waiting test reads
// it ten times a second, mostly from the same records.
func (w *world) view() *view.View {
	w.t.Helper()
	entries, index, err := w.store.List(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	if w.seen != nil && slices.EqualFunc(entries, w.decoded, sameEntry) {
		return w.seen
	}
	v, err := view.Read(w.t.Context(), w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.seen = nil; v.Index == index {
		w.seen, w.decoded = v, entries
	}
	return v
}

func sameEntry(a, b store.Entry) bool {
	return a.Key == b.Key && a.Index == b.Index && a.Session == b.Session && bytes.Equal(a.Value, b.Value)
}

func (w *world) openOperations() (open []operation.Operation) {
	for _, o := range w.view().Operations {
		if !o.Value.Phase.Ended() {
			open = append(open, o.Value)
		}
	}
	return open
}

func (w *world) condition(kind, reason string) func() bool {
	return func() bool {
		return slices.ContainsFunc(w.status().Conditions, func(c group.Condition) bool {
			return c.Type == kind && !c.Status && c.Reason == reason
		})
	}
}

// TestOpenStepEndsThoughTheSpecTurnsInvalid breaks the spec while a CVM is away,
// and lets a coordinator take over that never saw a valid spec.
func TestOpenStepEndsThoughTheSpecTurnsInvalid(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		first := w.coordinator("coordinator-0")
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.apply(spec("two"))
		w.until("the first call", time.Minute, func() bool { return len(w.made("update")) == 1 })
		w.put(store.GroupSpecKey("pg"), []byte("oops"))
		first.stop()
		w.coordinator("coordinator-1")
		w.until("the condition", time.Minute, w.condition("SpecValid", "SPEC_INVALID"))
		w.until("the end of the step", 2*time.Minute, func() bool { return len(w.openOperations()) == 0 })
		tick(t.Context(), time.Minute)
		if got := w.made("update"); len(got) != 1 {
			t.Errorf("updates under an invalid spec: %v", got)
		}
		if st := w.status(); st.Available != 3 || st.Paused || !strings.Contains(st.Message, "not valid") {
			t.Errorf("available %d, paused %v, message %q", st.Available, st.Paused, st.Message)
		}
		w.apply(spec("two"))
		w.until("the rest", 5*time.Minute, w.complete("two"))
	})
}

func TestOPS03_RemovedSpecLeavesEverythingRunning(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		calls, before := len(w.made("")), w.view()
		had, err := control.Desired(before, spec("one"), "pg-0", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.GroupSpecKey("pg")}); err != nil {
			t.Fatal(err)
		}
		w.until("the condition", time.Minute, w.condition("SpecValid", "SPEC_REMOVED"))
		tick(t.Context(), time.Minute)
		if got := w.made(""); len(got) != calls {
			t.Errorf("calls after the spec was removed: %v", got[calls:])
		}
		v := w.view()
		var directory control.Directory
		directory.Update(v, nil, nil)
		kept, ok := directory.Spec("pg")
		if !ok || kept.Workload.Kind != group.WorkloadPatroni {
			t.Errorf("a coordinator that starts now has no spec of the group: %v %+v", ok, kept)
		}
		if has, err := control.Desired(v, kept, "pg-0", ""); err != nil || has.GetVersion() < had.GetVersion() {
			t.Errorf("desired version fell from %d to %d (%v)", had.GetVersion(), has.GetVersion(), err)
		}
		w.apply(spec("two"))
		w.until("the group under a new spec", 5*time.Minute, w.complete("two"))
	})
}

// TestUnreadableOperationStopsTheGroup: an unreadable step must not count as a missing step.
func TestUnreadableOperationStopsTheGroup(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		key := store.OperationKey("pg-9-00000000.1.pg-1")
		w.put(key, []byte(`{"id": "pg-9-00000000.1.pg-1", "from_a_later_version": true}`))
		calls := len(w.made(""))
		w.apply(spec("two"))
		w.until("the condition", time.Minute, w.condition("RecordsReadable", "RECORD_UNREADABLE"))
		tick(t.Context(), time.Minute)
		if got := w.made(""); len(got) != calls {
			t.Errorf("calls beside an unreadable operation: %v", got[calls:])
		}
		if err := w.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: key}); err != nil {
			t.Fatal(err)
		}
		w.until("the update", 5*time.Minute, w.complete("two"))
	})
}

// TestUnreadableSecretIsReportedAndStopsNoStep: the group continues, its status names the record, and
// agents see a changed version.
func TestUnreadableSecretIsReportedAndStopsNoStep(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		had, err := control.Desired(w.view(), spec("one"), "pg-0", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{store.SecretKey("pg", "superuser"), store.SecretKey("pg", "rewind")} {
			w.put(store.SecretKey("pg", "of-nobody"), []byte("oops"))
			w.put(key, []byte("oops"))
			w.until("the condition", time.Minute, w.condition("AdmissionPolicy", "RECORD_UNREADABLE"))
			message := ""
			for _, c := range w.status().Conditions {
				if c.Type == "AdmissionPolicy" {
					message = c.Message
				}
			}
			if !strings.Contains(message, "record "+key) || strings.Contains(message, "of-nobody") {
				t.Errorf("told %q, want %s named alone", message, key)
			}
			has, err := control.Desired(w.view(), spec("one"), "pg-0", "")
			if err != nil || has.GetVersion() <= had.GetVersion() {
				t.Errorf("desired version %d, before %d (%v)", has.GetVersion(), had.GetVersion(), err)
			}
			had = has
			w.remove(key)
			w.until("the end of it", time.Minute, func() bool { return !w.condition("AdmissionPolicy", "RECORD_UNREADABLE")() })
		}
		w.put(store.SecretKey("pg", "superuser"), []byte("oops"))
		w.apply(spec("two"))
		w.until("the update", 5*time.Minute, w.complete("two"))
	})
}

func TestUnreadableSwitchesAreOn(t *testing.T) {
	for _, key := range []string{store.OverrideKey(store.OverridePause, "pg"), store.OverrideKey(store.OverrideFreeze, store.Everywhere)} {
		run(t, func(t *testing.T, w *world) {
			w.apply(spec("one"))
			w.until("creation", 2*time.Minute, w.complete("one"))
			w.put(key, []byte("please stop"))
			w.apply(spec("two"))
			tick(t.Context(), time.Minute)
			if got := w.made("update"); len(got) != 0 {
				t.Errorf("%s did not stop %v", key, got)
			}
			if err := w.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: key}); err != nil {
				t.Fatal(err)
			}
			w.until("the update", 5*time.Minute, w.complete("two"))
		})
	}
}

// TestLargeGroupFitsItsTransactions creates more Slots at once than one
// transaction can hold.
func TestLargeGroupFitsItsTransactions(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.store.OnCommit(func(ops []store.Op) (f storetest.Fault) {
			for _, op := range ops {
				id, begins := strings.CutPrefix(op.Key, store.OperationsPrefix)
				slot := id[strings.LastIndexByte(id, '.')+1:]
				if begins && op.Kind == store.OpPutCAS && op.Index == 0 && !slices.ContainsFunc(ops, func(o store.Op) bool {
					return o.Key == store.SlotKey("pg", slot)
				}) && strings.Contains(string(op.Value), `"CREATE"`) {
					t.Errorf("%s begins without the record of its slot", id)
				}
			}
			return f
		})
		large := spec("one")
		large.Replicas, large.Workload = 36, group.Workload{Kind: group.WorkloadNone}
		w.apply(large)
		w.until("creation", 10*time.Minute, func() bool { return w.status().Available == 36 })
		if got := w.made("create"); len(got) != 36 {
			t.Errorf("%d creates", len(got))
		}
		small := large
		small.Replicas = 34
		w.apply(small)
		w.putJSON(store.DeleteDisksKey("pg"), store.DeleteDisks{Group: "pg", Slots: []string{"pg-34", "pg-35"}, Reason: "smaller", By: "somebody"})
		w.until("scale-in", time.Hour, func() bool { return len(w.view().Slots) == 34 })
		v := w.view()
		if len(v.Policies) != 34 || len(v.Admissions) != 34 {
			t.Errorf("left behind: %d policies, %d admissions", len(v.Policies), len(v.Admissions))
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.Contains(w.retired, "pg-35") || slices.Contains(w.retired, "pg-0") {
			t.Errorf("tokens taken back: %v", w.retired)
		}
	})
}

// TestTickingFiguresAreNotWritten lets a member report its lag every quarter of a second.
func TestTickingFiguresAreNotWritten(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.mu.Lock()
		w.behind = time.Now()
		w.mu.Unlock()
		writes := map[string]int{}
		w.store.OnCommit(func(ops []store.Op) (f storetest.Fault) {
			for _, op := range ops {
				if id, ok := strings.CutPrefix(op.Key, store.OperationsPrefix); ok {
					var o operation.Operation
					if json.Unmarshal(op.Value, &o) == nil && o.Phase == operation.Joining {
						writes[id]++
					}
				}
			}
			return f
		})
		w.apply(spec("two"))
		w.until("joining", time.Minute, func() bool {
			open := w.openOperations()
			return len(open) == 1 && open[0].Phase == operation.Joining
		})
		tick(t.Context(), 30*time.Second)
		w.store.OnCommit(nil)
		for id, n := range writes {
			if n > 4 {
				t.Errorf("%s was written %d times while it waited", id, n)
			}
		}
		w.mu.Lock()
		w.behind = time.Time{}
		w.mu.Unlock()
		w.until("update", 5*time.Minute, w.complete("two"))
	})
}
