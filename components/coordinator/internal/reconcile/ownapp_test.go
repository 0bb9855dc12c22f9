package reconcile_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/platform"
)

// says reports whether the status contains the text about the group or a Slot.
func (w *world) says(text string) func() bool {
	return func() bool {
		raw, err := json.Marshal(w.status())
		return err == nil && bytes.Contains(raw, []byte(text))
	}
}

// A CVM of the coordinators' app would get the CA key, the management token and all
// secrets from its guest agent; a spec that comes by a plain KV edit asks for one.
func TestIDN07_SpecThatNamesTheCoordinatorsAppChangesNothing(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		own := spec("one")
		own.AppID = ownApp
		w.apply(own)
		w.until("the condition", time.Minute, w.condition("SpecValid", "IDENTITY_FORBIDDEN"))
		tick(t.Context(), time.Minute)
		if got := w.made(""); len(got) != 0 || len(w.view().Slots) != 0 {
			t.Fatalf("calls %v, slots %v for a group that may not be", got, w.view().Slots)
		}
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		calls := len(w.made(""))

		own = spec("two")
		own.AppID = "0x" + ownApp
		w.apply(own) // not even well-formed
		w.until("the grammar", time.Minute, w.condition("SpecValid", "SPEC_INVALID"))
		own.AppID = ownApp
		w.apply(own)
		w.until("the condition", time.Minute, w.condition("SpecValid", "IDENTITY_FORBIDDEN"))
		tick(t.Context(), time.Minute)
		if got := w.made(""); len(got) != calls {
			t.Errorf("calls after the edit: %v", got[calls:])
		}
		if st := w.status(); st.Available != 3 || !strings.Contains(st.Message, "app_id") {
			t.Errorf("available %d, message %q", st.Available, st.Message)
		}
		if inForce, _, ok := w.view().InForce("pg"); !ok || inForce.AppID != "" {
			t.Errorf("in force: %v, app %q", ok, inForce.AppID)
		}
		w.apply(spec("two"))
		w.until("the corrected spec", 5*time.Minute, w.complete("two"))
	})
}

// An accepted record from before the rule is not followed either.
func TestIDN07_AcceptedSpecInTheCoordinatorsAppMakesNoCVM(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		own := spec("one")
		own.AppID = ownApp
		w.apply(own)
		w.acceptStored(own)
		w.until("the condition", time.Minute, w.condition("SpecValid", "IDENTITY_FORBIDDEN"))
		tick(t.Context(), time.Minute)
		if got := w.made(""); len(got) != 0 {
			t.Errorf("calls: %v", got)
		}
	})
}

// The platform is not trusted: where it chooses the app, its answer is judged.
func TestIDN07_PlatformThatAnswersWithTheCoordinatorsAppMakesNoCVM(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.answers(func(_ platform.Template, p *platform.Provisioned) { p.AppID = ownApp })
		w.apply(spec("one"))
		w.until("the reason", time.Minute, w.says("IDENTITY_FORBIDDEN"))
		tick(t.Context(), time.Minute)
		if got := w.made(""); len(got) != 0 {
			t.Errorf("calls: %v", got)
		}
		w.answers(nil)
		w.until("creation", 3*time.Minute, w.complete("one"))
	})
}

// A list that shows a member's CVM in the coordinators' app moves no compose file there.
func TestIDN07_MemberListedInTheCoordinatorsAppIsNotUpdated(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.mu.Lock()
		for _, c := range w.membersLocked() {
			c.AppID = ownApp
		}
		w.mu.Unlock()
		tick(t.Context(), 15*time.Second) // the list is read again
		w.apply(spec("two"))
		tick(t.Context(), 2*time.Minute)
		if got := w.made("update"); len(got) != 0 {
			t.Errorf("updates: %v", got)
		}
		if !w.says("IDENTITY_FORBIDDEN")() {
			t.Errorf("nothing tells why: %+v", w.status())
		}
		if slices.ContainsFunc(w.status().Conditions, func(c group.Condition) bool { return c.Type == "SpecValid" && !c.Status }) {
			t.Error("the spec is blamed for what the platform says")
		}
	})
}
