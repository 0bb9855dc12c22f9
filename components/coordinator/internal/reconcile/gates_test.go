package reconcile_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// inMessage finds the ticket that the status shows.
var inMessage = regexp.MustCompile(`--ticket ([0-9a-f]{16})`)

// TestR150_ASettingWrittenToKVOpensTheGateForOneStep: a record with the ticket in the plan opens the
// gate, and an unreadable record keeps a gate closed that is open without a setting.
func TestR150_ASettingWrittenToKVOpensTheGateForOneStep(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		s := spec("one")
		s.Gates = []group.Gate{{Name: "balancer", On: []string{group.GateOnStep}, Per: group.GatePerSlot}, {Name: "alarm", On: []string{group.GateOnStep}, Default: group.GateOpen}}
		w.apply(s)
		w.until("creation", 2*time.Minute, w.complete("one"))
		next := spec("two")
		next.Gates = s.Gates
		alarm := store.OverrideKey(store.OverrideGate, "pg/alarm")
		w.put(alarm, []byte("closed"))
		w.apply(next)
		// waiting is the first slot whose next step waits for a gate alone, and the hold.
		waiting := func() (string, group.Hold) {
			for _, slot := range []string{"pg-0", "pg-1", "pg-2"} {
				if holds := w.instance(slot).Holds; len(holds) > 0 && !slices.ContainsFunc(holds, func(h group.Hold) bool { return h.Predicate != rollout.HoldGateClosed }) {
					return slot, holds[len(holds)-1]
				}
			}
			return "", group.Hold{}
		}
		w.until("the hold by the unreadable record", time.Minute, func() bool {
			return slices.ContainsFunc(w.instance("pg-1").Holds, func(h group.Hold) bool {
				return strings.Contains(h.Message, "control/gate/pg/alarm has no readable state")
			})
		})
		w.remove(alarm)
		tick(t.Context(), time.Hour)
		opened := map[string]bool{}
		for range 3 {
			w.until("a step that waits for the balancer", 10*time.Minute, func() bool { slot, _ := waiting(); return slot != "" && !opened[slot] })
			slot, hold := waiting()
			ticket := inMessage.FindStringSubmatch(hold.Message)
			if ticket == nil {
				t.Fatalf("no ticket: %s", hold.Message)
			}
			w.putJSON(store.OverrideKey(store.OverrideGate, "pg/balancer/"+slot), store.Override{State: group.GateOpen, Ticket: ticket[1], By: "lb", Reason: "out"})
			opened[slot] = true
			w.until("the step", 10*time.Minute, func() bool {
				at, _ := waiting()
				return at != slot && w.instance(slot).Operation == "" && w.instance(slot).State == group.SlotAvailable
			})
		}
		w.until("the rollout", 30*time.Minute, w.complete("two"))
	})
}

// TestR150_ASettingLeavesWithItsGate: a later gate of the same name begins without a setting. Gates that stay keep
// theirs, and a setting may be written to Consul KV ahead of its gate.
func TestR150_ASettingLeavesWithItsGate(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		step := []string{group.GateOnStep}
		s := spec("one")
		s.Gates = []group.Gate{{Name: "goes", On: step}, {Name: "turns", On: step}, {Name: "stays", On: step}, {Name: "each", On: step, Per: group.GatePerSlot}}
		w.apply(s)
		w.until("creation", 2*time.Minute, w.complete("one"))
		set := func(scope string) {
			w.putJSON(store.OverrideKey(store.OverrideGate, "pg/"+scope), store.Override{State: group.GateOpen, Ticket: strings.Repeat("0", 16)})
		}
		for _, scope := range []string{"goes", "turns", "stays", "each/pg-0", "each/pg-1", "later"} {
			set(scope)
		}
		next := s
		next.Gates = []group.Gate{{Name: "turns", On: step, Per: group.GatePerSlot}, {Name: "stays", On: []string{group.GateOnCreate}}, {Name: "later", On: step}}
		w.apply(next)
		left := func() string {
			entries, _, err := w.store.List(t.Context(), store.OverrideGate.Prefix())
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			for _, one := range entries {
				keys = append(keys, strings.TrimPrefix(one.Key, store.OverrideGate.Prefix()+"pg/"))
			}
			return strings.Join(keys, " ")
		}
		w.until("the settings", time.Minute, func() bool { return left() == "later stays" })
		tick(t.Context(), time.Hour)
		if got := left(); got != "later stays" {
			t.Errorf("settings of %q are left", got)
		}
	})
}
