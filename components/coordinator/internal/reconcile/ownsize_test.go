package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/platform"
)

// One Slot's own size reaches the CVM of that Slot alone, by one call. A CVM that is made for the
// Slot has the size of the app first. A Slot without a size of its own goes back to the template's.
func TestASlotIsGivenItsOwnSize(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		first := sizing(spec("one"), 2, "tdx.medium")
		w.apply(first)
		w.until("creation", 2*time.Minute, w.sized(first, "tdx.small", "tdx.small", "tdx.medium"))
		if got := w.made("resize"); !slices.Equal(got, []string{"resize demo-pg-2"}) {
			t.Errorf("the creation took %v", got)
		}
		calls := len(w.made(""))

		own := spec("one")
		own.Instances = []group.InstanceSettings{{Ordinal: 1, InstanceType: "tdx.large"}, {Ordinal: 2, InstanceType: "tdx.medium"}}
		w.apply(own)
		w.until("its own size", 5*time.Minute, w.sized(own, "tdx.small", "tdx.large", "tdx.medium"))
		if got := w.made("")[calls:]; !slices.Equal(got, []string{"resize demo-pg-1"}) {
			t.Errorf("calls: %v", got)
		}

		next := own
		next.Template.Compose, next.Template.InstanceType = spec("two").Template.Compose, "tdx.medium"
		w.apply(next)
		w.until("a rollout to another size", 10*time.Minute, w.sized(next, "tdx.medium", "tdx.large", "tdx.medium"))

		back := next
		back.Instances = nil
		w.apply(back)
		w.until("without it", 5*time.Minute, w.sized(back, "tdx.medium", "tdx.medium", "tdx.medium"))
	})
}

// TestAnAppHasTheSizeOfTheTemplate: the first CVM decides the size of the app, and so that of each later
// CVM, also of a Slot that has a size of its own.
func TestAnAppHasTheSizeOfTheTemplate(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		first := sizing(spec("one"), 0, "tdx.large")
		w.apply(first)
		w.until("creation", 5*time.Minute, w.sized(first, "tdx.large", "tdx.small", "tdx.small"))
		if got := w.made("resize"); !slices.Equal(got, []string{"resize demo-pg-0"}) {
			t.Errorf("resizes: %v", got)
		}
	})
}

// TestR74_ASizeOfOneSlotThatIsNotOffered: the Slot is held before it is touched, with the path of its
// field, and other Slots go on to another Revision, apart from the leader, which goes last. The size of the template may be withdrawn
// from the offer meanwhile for a Slot that does not use it.
func TestR74_ASizeOfOneSlotThatIsNotOffered(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.offers(sizesOffered("tdx.small", "tdx.large"))
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		calls := len(w.made(""))
		own := sizing(spec("one"), 1, "tdx.huge")
		w.apply(own)
		for _, text := range []string{"precondition", `instance[\"1\"].instance_type \"tdx.huge\": choose one of tdx.large, tdx.small`} {
			w.until("the status to say "+text, 2*time.Minute, w.says(text))
		}
		tick(t.Context(), time.Minute)
		if got := w.made(""); len(got) != calls || w.status().Available != 3 {
			t.Errorf("calls %v, %d available", got[calls:], w.status().Available)
		}
		next := own
		next.Template.Compose = spec("two").Template.Compose
		w.apply(next)
		w.until("another slot", 10*time.Minute, w.runs(map[string]string{"pg-1": own.Revision(), "pg-2": next.Revision()}))

		w.offers(sizesOffered("tdx.large"))
		next = sizing(next, 1, "tdx.large")
		w.apply(next)
		w.until("a size that is offered", 5*time.Minute, w.sized(next, "tdx.small", "tdx.large", "tdx.small"))
		own = next
		own.Template.Compose = spec("three").Template.Compose
		w.apply(own)
		w.until("a rollout of all", 10*time.Minute, w.sized(own, "tdx.small", "tdx.large", "tdx.small"))
		if resizes := w.made("resize"); !slices.Equal(resizes, []string{"resize demo-pg-1"}) {
			t.Errorf("resizes: %s", strings.Join(resizes, ", "))
		}
	})
}

// TestR74_ASlotGoesBackToAWithdrawnSize: a Slot loses its own size after the platform has withdrawn the
// template's, which other CVMs keep. The Slot is held before it is touched. The Revision is not refused,
// since each other Slot goes on.
func TestR74_ASlotGoesBackToAWithdrawnSize(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		own := sizing(spec("one"), 2, "tdx.large")
		w.apply(own)
		w.until("creation", 5*time.Minute, w.sized(own, "tdx.small", "tdx.small", "tdx.large"))
		w.offers(sizesOffered("tdx.large"))
		steps := len(w.view().Operations)
		w.apply(spec("one"))
		w.until("the hold", 2*time.Minute, w.says("UPDATE of pg-2 is held, blocked(precondition)"))
		w.until("its reason", time.Minute, w.says(`template.instance_type \"tdx.small\": choose one of tdx.large`))
		tick(t.Context(), 10*time.Minute)
		if now := len(w.view().Operations); now != steps || w.status().Available != 3 {
			t.Errorf("%d operations, %d before; %d available: %s", now, steps, w.status().Available, w.status().Message)
		}
		next := spec("two")
		w.apply(next)
		w.until("another slot", 10*time.Minute, w.runs(map[string]string{"pg-1": next.Revision(), "pg-2": own.Revision()}))
		w.offers(sizesOffered("tdx.small", "tdx.large"))
		w.until("a size that is offered again", 10*time.Minute, w.sized(next, "tdx.small", "tdx.small", "tdx.small"))
	})
}

// TestR74_ASizeIsAskedAboutOnce: a Slot that waits with its step costs no question in each pass. Its step
// asks once more, and a size that was withdrawn meanwhile holds the next step.
func TestR74_ASizeIsAskedAboutOnce(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		sizes := sizesOffered("tdx.small", "tdx.large")
		w.offers(sizes)
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		own := spec("one")
		own.UpdatePolicy.Type = group.Opportunistic
		own.Instances = []group.InstanceSettings{{Ordinal: 1, InstanceType: "tdx.large"}}
		before := w.questions()
		w.apply(own)
		tick(t.Context(), 10*time.Minute)
		if got := w.questions() - before; got != 1 {
			t.Errorf("%d questions about the offer", got)
		}
		sizes.InstanceTypes = []string{"tdx.small"}
		w.offers(sizes)
		own.UpdatePolicy.Type = group.Proactive
		w.apply(own)
		w.until("the end of the step", 5*time.Minute, w.steps(operation.Aborted, operation.CausePrecondition, 1))
		steps := len(w.view().Operations)
		w.until("the hold", 2*time.Minute, w.says("UPDATE of pg-1 is held, blocked(precondition)"))
		tick(t.Context(), 10*time.Minute)
		if now := len(w.view().Operations); now != steps || w.status().Available != 3 || len(w.made("resize")) > 0 {
			t.Errorf("%d operations, %d before; %d available; calls %v", now, steps, w.status().Available, w.made("resize"))
		}
	})
}

// sizing is a spec that gives one Slot a size of its own.
func sizing(s group.Spec, ordinal int, size string) group.Spec {
	s.Instances = []group.InstanceSettings{{Ordinal: ordinal, InstanceType: size}}
	return s
}

func sizesOffered(sizes ...string) platform.Offer {
	return platform.Offer{OSImages: []string{"dstack-0.5.7"}, InstanceTypes: sizes}
}

// questions counts how often the platform was asked about its offer.
func (w *world) questions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offersAsked
}

// sized: all members are available at the spec's Revision, with these sizes by ordinal, and the
// rollout is complete.
func (w *world) sized(s group.Spec, sizes ...string) func() bool {
	return func() bool {
		st := w.status()
		if st.Target != s.Revision() || st.RolloutState != string(operation.Complete) || st.Available != 3 {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.membersLocked() {
			_, ordinal, err := group.ParseSlot(c.slot)
			if err != nil || c.InstanceType != sizes[ordinal] {
				return false
			}
		}
		return true
	}
}
