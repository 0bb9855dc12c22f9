package reconcile_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// applyGroup writes the spec of a group without voters.
func (w *world) applyGroup(name, release string, change func(*group.Spec)) group.Spec {
	w.t.Helper()
	s := spec(release)
	s.Name, s.Replicas, s.Workload = name, 2, group.Workload{}
	s.Template.Compose = strings.ReplaceAll(s.Template.Compose, "RELEASE:", strings.ToUpper(name)+":")
	if change != nil {
		change(&s)
	}
	s.Normalize()
	w.putJSON(store.GroupSpecKey(name), s)
	return s
}

// statusOf is the recorded status of a group with its Slots.
func (w *world) statusOf(name string) group.Status {
	st, _ := view.ReadStatus(w.t.Context(), w.store, name)
	return st
}

// at reports whether all Slots of a group are available at a spec.
func (w *world) at(s group.Spec) bool {
	st := w.statusOf(s.Name)
	return st.Target == s.Revision() && st.Stable == s.Revision() && st.Available == s.Replicas
}

// holdsOf joins the holds of the Slots of a group.
func (w *world) holdsOf(name string) string {
	var out []string
	for _, i := range w.statusOf(name).Instances {
		for _, h := range i.Holds {
			out = append(out, h.Predicate+": "+h.Message)
		}
	}
	return strings.Join(out, "\n")
}

// most follows the open Operations in the committed records, and keeps the highest numbers.
type most struct {
	mu               sync.Mutex
	open             map[string]operation.Operation // guarded by mu
	steps, creations int                            // guarded by mu
	order            []string                       // guarded by mu; the groups whose first step began
}

func (m *most) follow(s *storetest.Memory) {
	m.open = map[string]operation.Operation{}
	s.OnCommitted(func(c storetest.Committed) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, o := range c.Ops {
			var op operation.Operation
			if !strings.HasPrefix(o.Key, store.OperationsPrefix) || json.Unmarshal(o.Value, &op) != nil {
				continue
			}
			if _, known := m.open[op.ID]; !known && op.Kind == operation.Update {
				m.order = append(m.order, op.Group)
			}
			if m.open[op.ID] = op; op.Phase.Ended() {
				delete(m.open, op.ID)
			}
		}
		steps, creations := 0, 0
		for _, op := range m.open {
			switch rollout.LimitOf(op) { //nolint:exhaustive // no Operation is a rollout
			case "steps":
				steps++
			case "creations":
				creations++
			}
		}
		m.steps, m.creations = max(m.steps, steps), max(m.creations, creations)
	})
}

func TestR98_LimitsOfTheClusterBoundAllGroups(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		var seen most
		seen.follow(w.store)
		w.putJSON(store.LimitsKey(), store.Limits{Steps: 1, Rollouts: 2, Creations: 1, Reason: "one host", By: "op"})
		names := []string{"a", "b", "c", "d"}
		all := func(release string, change func(*group.Spec)) func() bool {
			var specs []group.Spec
			for _, name := range names {
				specs = append(specs, w.applyGroup(name, release, change))
			}
			return func() bool {
				for _, s := range specs {
					if !w.at(s) {
						return false
					}
				}
				return true
			}
		}
		w.until("all groups are created", 30*time.Minute, all("one", nil))
		if seen.creations != 1 {
			t.Errorf("%d creations were open at once, and the limit is 1", seen.creations)
		}
		done := all("two", func(s *group.Spec) {
			if s.Name == "d" {
				high := 90
				s.Priority = &high
			}
		})
		w.until("a group waits with a text", 5*time.Minute, func() bool {
			return strings.Contains(w.holdsOf("a")+w.holdsOf("b")+w.holdsOf("c"), "cluster_limit: the cluster limit ")
		})
		w.until("all groups are updated", time.Hour, done)
		if seen.steps != 1 {
			t.Errorf("%d steps were open at once, and the limit is 1", seen.steps)
		}
		for _, name := range names {
			if q := w.statusOf(name).Queue; q == nil || q.Rollout || !q.Step.Since.IsZero() {
				t.Errorf("%s is done, and its place is %+v", name, q)
			}
		}
		w.remove(store.LimitsKey())
		w.until("the places are gone", 10*time.Minute, func() bool { return w.statusOf("a").Queue == nil })
	})
}

// TestR98_ANextLeaderKeepsThePlaces: the step of a leader that died right after its record has its place.
func TestR98_ANextLeaderKeepsThePlaces(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		first := w.coordinator("coordinator-0", diesAt(reconcile.FailAfterRecorded))
		w.putJSON(store.LimitsKey(), store.Limits{Steps: 1, Rollouts: 1, Reason: "calm", By: "op"})
		a, b := w.applyGroup("a", "one", nil), w.applyGroup("b", "one", nil)
		w.until("both groups", 10*time.Minute, func() bool { return w.at(a) && w.at(b) })
		var seen most
		seen.follow(w.store)
		first.armed.Store(true)
		a, b = w.applyGroup("a", "two", nil), w.applyGroup("b", "two", nil)
		<-first.died
		w.store.ExpireSession()
		w.coordinator("coordinator-1")
		w.until("both are updated", 30*time.Minute, func() bool { return w.at(a) && w.at(b) })
		if seen.steps != 1 {
			t.Errorf("%d steps were open at once, and the limit is 1", seen.steps)
		}
		if got := fmt.Sprint(seen.order); got != "[a a b b]" && got != "[b b a a]" {
			t.Errorf("the order of the steps is %s: the second rollout began within the first", got)
		}
		first.stop()
	})
}

func TestR98_AFailedRolloutGivesItsPlaceUp(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		a, b := w.applyGroup("a", "one", nil), w.applyGroup("b", "one", nil)
		w.until("both groups", 10*time.Minute, func() bool { return w.at(a) && w.at(b) })
		w.putJSON(store.LimitsKey(), store.Limits{Rollouts: 1, Reason: "calm", By: "op"})
		w.until("the limits are seen", 10*time.Minute, func() bool { return w.statusOf("a").Queue != nil })
		w.applyGroup("a", "two", nil)
		w.until("a has the place", time.Minute, func() bool { q := w.statusOf("a").Queue; return q != nil && q.Rollout })
		b = w.applyGroup("b", "two", nil)
		w.until("b waits", time.Minute, func() bool { return strings.Contains(w.holdsOf("b"), "the cluster limit rollouts = 1 is used by a") })
		w.putJSON(store.OverrideKey(store.OverridePause, "a"), store.Override{By: "op", Reason: "look"})
		w.until("b is updated while a is paused", 30*time.Minute, func() bool { return w.at(b) })
		if st := w.statusOf("a"); st.RolloutState != string(operation.PausedState) || st.Queue.Rollout {
			t.Errorf("a is %s with the place %+v", st.RolloutState, st.Queue)
		}
	})
}

func TestR98_AnUnreadableRecordOfLimitsHoldsTheWork(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.put(store.LimitsKey(), []byte(`{"steps": "many"}`))
		a := w.applyGroup("a", "one", nil)
		w.until("the hold", time.Minute, func() bool { return strings.Contains(w.holdsOf("a"), "cadre limits set, or cadre limits clear") })
		w.remove(store.LimitsKey())
		w.until("the group", 10*time.Minute, func() bool { return w.at(a) })
	})
}

func TestR158_AGroupWaitsForTheGroupsThatItIsAfter(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		after := func(names ...string) func(*group.Spec) { return func(s *group.Spec) { s.After = names } }
		app := w.applyGroup("app", "one", after("base"))
		w.until("the text about the missing group", time.Minute, func() bool {
			return strings.Contains(w.holdsOf("app"), "after_group: waits for group base: there is no such group yet")
		})
		base := w.applyGroup("base", "one", nil)
		w.until("base", 10*time.Minute, func() bool { return w.at(base) })
		w.until("app follows at once", 30*time.Second, func() bool { return w.at(app) })

		var seen most
		seen.follow(w.store)
		base = w.applyGroup("base", "two", nil)
		app = w.applyGroup("app", "two", after("base"))
		w.until("both are updated", 30*time.Minute, func() bool { return w.at(base) && w.at(app) })
		if got := fmt.Sprint(seen.order); got != "[base base app app]" {
			t.Errorf("the order of the steps is %s", got)
		}

		// A cycle by an edit of the KV is refused, with its path.
		w.applyGroup("base", "three", after("app"))
		w.until("the cycle is refused", time.Minute, func() bool {
			return strings.Contains(w.statusOf("base").Message, "after[0]: closes a cycle: base after app after base")
		})
		base = w.applyGroup("base", "two", nil)

		// The deletion goes in reverse.
		w.putJSON(store.DeleteGroupKey("base"), store.DeleteGroup{Group: "base", DeleteDisks: true, Reason: "over", By: "op"})
		w.until("base waits for app", time.Minute, func() bool {
			return strings.Contains(w.holdsOf("base"), "the groups that are after base go first: app")
		})
		tick(t.Context(), time.Minute)
		if !w.at(app) || len(w.made("delete")) > 0 {
			t.Error("base lost a slot before app was deleted")
		}
		w.putJSON(store.DeleteGroupKey("app"), store.DeleteGroup{Group: "app", DeleteDisks: true, Reason: "over", By: "op"})
		w.until("both are gone", 10*time.Minute, func() bool { return len(w.made("delete")) == 4 })
		if got := w.made("delete"); !strings.Contains(got[0], "-app-") || !strings.Contains(got[1], "-app-") {
			t.Errorf("the order of the deletions is %v", got)
		}
	})
}
