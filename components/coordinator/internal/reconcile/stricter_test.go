package reconcile_test

import (
	"testing"
	"time"

	"cadre.dev/core/group"
)

// TestAnAcceptedSpecStaysInForce though this version would refuse it in a new spec. A down member
// is healed by the accepted spec; only an edit must be valid.
func TestAnAcceptedSpecStaysInForce(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		s := spec("one")
		s.AutoHealing = &group.AutoHealing{Replace: group.ReplaceAuto}
		s.RestartPolicy.On = []string{group.OnUnhealthy}
		if group.Validate(s) == nil {
			t.Fatal("it is not refused")
		}
		w.apply(s)
		w.until("the first spec's condition", time.Minute, w.condition("SpecValid", "SPEC_INVALID"))
		w.acceptStored(s)
		w.until("creation", 5*time.Minute, w.availableSlots(3))
		edit := s
		edit.Template.Compose = spec("two").Template.Compose
		w.apply(edit)
		w.until("the edit is refused", time.Minute, w.condition("SpecValid", "SPEC_INVALID"))
		if st := w.status(); st.Available != 3 {
			t.Errorf("%d are available", st.Available)
		}
	})
}
