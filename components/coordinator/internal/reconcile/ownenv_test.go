package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// One Slot's own value of env reaches the CVM of that Slot alone, by one call, and its record names
// it. A rollout of all Slots sends it again.
func TestASlotIsGivenItsOwnEnv(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		first := spec("one")
		first.Template.Env = map[string]string{"COLOR": "blue"}
		w.apply(first)
		arrived := func(s group.Spec) func() bool {
			return func() bool {
				st := w.status()
				return st.Target == s.Revision() && st.RolloutState == string(operation.Complete) && st.Available == 3 && w.given(s)
			}
		}
		w.until("creation", 2*time.Minute, arrived(first))
		calls := len(w.made(""))

		own := first
		own.Instances = []group.InstanceSettings{{Ordinal: 1, Env: map[string]string{"COLOR": "red"}}}
		w.apply(own)
		w.until("its own value", 5*time.Minute, arrived(own))
		if got := w.made("")[calls:]; !slices.Equal(got, []string{"update demo-pg-1"}) {
			t.Errorf("calls: %v", got)
		}
		if got := w.view().Slots["pg-1"].Value.OwnEnv; got == "" || got != own.OwnEnv(1, own.Template) {
			t.Errorf("recorded: %q", got)
		}

		next := own
		next.Template.Compose = spec("two").Template.Compose
		w.apply(next)
		w.until("a rollout", 5*time.Minute, arrived(next))

		back := next
		back.Instances = nil
		w.apply(back)
		w.until("without it", 5*time.Minute, arrived(back))
	})
}

// given: each CVM has the env of the spec.
func (w *world) given(s group.Spec) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.membersLocked() {
		_, ordinal, err := group.ParseSlot(c.slot)
		if err != nil || c.Env["COLOR"] != s.EnvOf(ordinal, s.Template)["COLOR"] {
			return false
		}
	}
	return true
}
