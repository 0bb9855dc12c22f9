package reconcile_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/status"
	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// figures sets the metrics of the process.
func figures(m *status.Metrics) option {
	return func(_ *life, c *simulated.Config) { c.Figures = m }
}

// figure returns a figure of group pg with these values of its other labels; of a histogram, the
// sum.
func (w *world) figure(m *status.Metrics, name string, labels ...string) (value float64, found bool) {
	w.t.Helper()
	families, err := m.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var has []string
			group := false
			for _, l := range metric.GetLabel() {
				if l.GetName() == "group" {
					group = l.GetValue() == "pg"
				} else {
					has = append(has, l.GetValue())
				}
			}
			if family.GetName() == "cadre_group_"+name && group && slices.Equal(has, labels) {
				return metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + metric.GetHistogram().GetSampleSum(), true
			}
		}
	}
	return 0, false
}

// is waits until a figure has a value.
func (w *world) is(m *status.Metrics, want float64, name string, labels ...string) {
	w.t.Helper()
	w.until(name+" "+strings.Join(labels, " "), 5*time.Minute, func() bool {
		got, found := w.figure(m, name, labels...)
		return found && got == want
	})
}

// TestTheFiguresOfAGroup follow a member that stops and is healed, a change of leader, and the group's end.
func TestTheFiguresOfAGroup(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		first, second := status.NewMetrics(), status.NewMetrics()
		leader := w.coordinator("coordinator-0", figures(first))
		s := spec("one")
		s.AutoHealing = &group.AutoHealing{}
		w.apply(s)
		w.until("creation", 2*time.Minute, w.availableSlots(3))
		w.is(first, 3, "slots_available")
		w.is(first, 3, "operations_total", "CREATE", "scaling", "DONE")
		if n, found := w.figure(first, "heal_attempts_total", "RESTART"); n != 0 || !found {
			t.Errorf("%v attempts to heal a group that is well, %t", n, found)
		}

		from := time.Now()
		w.stop("pg-1")
		w.is(first, 2, "slots_available")
		w.is(first, 0, "condition", "Available")
		w.is(first, 1, "operations_open", "RESTART", "BOOTING")
		if began, found := w.figure(first, "oldest_operation_timestamp_seconds", "RESTART"); !found || began < float64(from.Unix()) {
			t.Errorf("the oldest operation began at %v, %t; the member stopped at %v", began, found, from.Unix())
		}
		w.is(first, 3, "slots_available")
		took := time.Since(from)
		w.is(first, 1, "heal_attempts_total", "RESTART")
		w.is(first, 1, "operations_total", "RESTART", "healing", "DONE")
		if _, found := w.figure(first, "operations_open", "RESTART", "SETTLING"); found {
			t.Error("an operation that ended is open")
		}
		if lasted, _ := w.figure(first, "healed_outage_seconds"); lasted <= 0 || lasted > took.Seconds() {
			t.Errorf("the outage lasted %v s; from the stop to available it took %v", lasted, took)
		}

		// The next leader reports the group, and counts no event a second time.
		leader.stop()
		w.store.ExpireSession()
		w.coordinator("coordinator-1", figures(second))
		w.is(second, 3, "slots_available")
		if _, found := w.figure(first, "slots_available"); found {
			t.Error("one that leads no more tells how many are available")
		}
		tick(t.Context(), time.Minute)
		if n, _ := w.figure(second, "heal_attempts_total", "RESTART"); n != 0 {
			t.Errorf("the next leader counts %v attempts of the one before", n)
		}
		for _, name := range []string{"CREATE scaling DONE", "RESTART healing DONE"} {
			if n, found := w.figure(second, "operations_total", strings.Fields(name)...); found {
				t.Errorf("the next leader counts %v %s of the one before", n, name)
			}
		}
		if n, _ := w.figure(first, "operations_total", "RESTART", "healing", "DONE"); n != 1 {
			t.Errorf("the one before lost what it counted: %v", n)
		}

		w.putJSON(store.DeleteGroupKey("pg"), store.DeleteGroup{Group: "pg", DeleteDisks: true, Reason: "over", By: "somebody", At: time.Now()})
		w.until("the group is gone", 5*time.Minute, func() bool { return len(w.view().Specs) == 0 })
		w.until("nothing is told of it", time.Minute, func() bool {
			_, gauge := w.figure(second, "slots_wanted")
			_, counter := w.figure(second, "quarantines_total")
			return !gauge && !counter
		})
	})
}

// TestUnwrittenEndsAreNotCounted: the store refuses the end of an Operation, and the end is
// counted with the successful retry. A written end whose answer got lost is not counted.
func TestUnwrittenEndsAreNotCounted(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		m, ends := status.NewMetrics(), map[string]int{}
		w.store.OnCommit(func(ops []store.Op) storetest.Fault {
			for _, op := range ops {
				var o operation.Operation
				if !strings.HasPrefix(op.Key, store.OperationsPrefix) || json.Unmarshal(op.Value, &o) != nil || o.Phase != operation.Done {
					continue
				}
				ends[o.Slot]++
				switch {
				case o.Slot == "pg-0" && ends[o.Slot] < 3:
					return storetest.Refused
				case o.Slot == "pg-1" && ends[o.Slot] < 2:
					return storetest.UnknownApplied
				}
			}
			return storetest.None
		})
		w.coordinator("coordinator-0", figures(m))
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		tick(t.Context(), time.Minute)
		if n, _ := w.figure(m, "operations_total", "CREATE", "scaling", "DONE"); n != 2 || ends["pg-0"] != 3 || ends["pg-1"] != 1 {
			t.Errorf("%v creations are counted, of which the ends were written so often: %v", n, ends)
		}
	})
}
