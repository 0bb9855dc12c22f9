package reconcile_test

import (
	"errors"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/platform"
)

func (w *world) offers(o platform.Offer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offer = o
}

// TestR74_NoSlotMovesToAnUnofferedName: a name that the platform does not offer is reported
// before any member is drained for it. Names that the members use already are not checked, however
// little the platform offers now.
func TestR74_NoSlotMovesToAnUnofferedName(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.offers(platform.Offer{OSImages: []string{"dstack-0.5.7"}, InstanceTypes: []string{"tdx.small"}})
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		calls := len(w.made(""))
		arrived := func(next group.Spec) func() bool {
			return func() bool {
				st := w.status()
				return st.Stable == next.Revision() && st.Available == 3
			}
		}
		for name, c := range map[string]struct {
			change func(*group.Spec)
			says   []string
		}{
			"an image": {func(s *group.Spec) { s.Template.OSImage = "dstack-0.5.8" }, []string{"template.os_image", "dstack-0.5.8", "choose one of dstack-0.5.7"}},
			"a type":   {func(s *group.Spec) { s.Template.InstanceType = "tdx.huge" }, []string{"template.instance_type", "tdx.huge", "choose one of tdx.small"}},
		} {
			next := spec("one")
			c.change(&next)
			w.apply(next)
			for _, text := range append(c.says, "precondition") {
				w.until(name+": the status to say "+text, 2*time.Minute, w.says(text))
			}
			tick(t.Context(), time.Minute)
			if got := w.made(""); len(got) != calls || w.status().Available != 3 || len(w.view().Operations) != 3 {
				t.Errorf("%s: calls %v, %d available, %d operations", name, got[calls:], w.status().Available, len(w.view().Operations))
			}
		}
		// Withdrawn from the offer, although the members run it.
		w.offers(platform.Offer{OSImages: []string{"dstack-0.5.9"}, InstanceTypes: []string{"tdx.large"}})
		w.apply(spec("two"))
		w.until("the update on a withdrawn image", 10*time.Minute, w.complete("two"))
		next := spec("two")
		next.Template.OSImage = "dstack-0.5.9"
		w.apply(next)
		w.until("the update to one on offer", 10*time.Minute, arrived(next))
	})
}

// TestR116_AnUnofferedNameKeepsNoMemberDown: the update that would repair a member is impossible, so
// the member is started at its present Revision.
func TestR116_AnUnofferedNameKeepsNoMemberDown(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.offers(platform.Offer{OSImages: []string{"dstack-0.5.7"}, InstanceTypes: []string{"tdx.small"}})
		s := spec("one")
		s.AutoHealing = &group.AutoHealing{}
		w.apply(s)
		w.until("creation", 2*time.Minute, w.complete("one"))
		s.Template.OSImage = "dstack-0.5.8"
		w.apply(s)
		w.until("the hold", 2*time.Minute, w.says("blocked(precondition)"))
		w.stop("pg-1")
		w.until("its start", time.Minute, func() bool { return len(w.made("start demo-pg-1")) > 0 })
		w.until("it is back", 2*time.Minute, w.availableSlots(3))
		if got := w.made("update"); len(got) > 0 {
			t.Errorf("calls %v", got)
		}
	})
}

// TestR74_APinThatIsOfferedAgain: the platform refused a Revision that one Slot is pinned to. The
// leader asks again, as it does for the target.
func TestR74_APinThatIsOfferedAgain(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		two := spec("two")
		two.Template.OSImage = "dstack-0.5.8"
		w.apply(two)
		w.until("the update", 10*time.Minute, func() bool { return w.status().Stable == two.Revision() && w.status().Available == 3 })
		w.offers(platform.Offer{OSImages: []string{"dstack-0.5.8"}, InstanceTypes: []string{"tdx.small"}})
		pinned := two
		pinned.Instances = []group.InstanceSettings{{Ordinal: 2, PinnedRevision: spec("one").Revision()}}
		steps := len(w.view().Operations)
		w.apply(pinned)
		w.until("the hold", 10*time.Minute, w.says("UPDATE of pg-2 is held, blocked(precondition)"))
		if now := len(w.view().Operations); now != steps {
			t.Errorf("%d operations, %d before it was pinned", now, steps)
		}
		w.offers(platform.Offer{OSImages: []string{"dstack-0.5.7", "dstack-0.5.8"}, InstanceTypes: []string{"tdx.small"}})
		w.until("the pin", 5*time.Minute, w.runs(map[string]string{"pg-2": spec("one").Revision()}))
	})
}

// runs: all members are available, and these Slots are at these Revisions.
func (w *world) runs(want map[string]string) func() bool {
	return func() bool {
		st, found := w.status(), 0
		for _, i := range st.Instances {
			if at, ok := want[i.Slot]; ok && i.Observed == at && i.State == "Available" {
				found++
			}
		}
		return st.Available == 3 && found == len(want)
	}
}

// steps: n Operations are in the phase, or ended there with the cause.
func (w *world) steps(phase operation.Phase, cause operation.Cause, n int) func() bool {
	return func() bool {
		found := 0
		for _, o := range w.view().Operations {
			if o.Value.Phase == phase && o.Value.Failure.Cause == cause {
				found++
			}
		}
		return found >= n
	}
}

// TestR74_APlatformWithoutAnAnswerIsAskedAgain: a missing answer counts against no member, however
// often it is missing.
func TestR74_APlatformWithoutAnAnswerIsAskedAgain(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.apply(spec("two"))
		w.until("a drain", time.Minute, w.steps(operation.Draining, "", 1))
		hears := func(why error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.measureError = why
		}
		hears(errors.New("503 Service Unavailable"))
		w.until("four steps that came to nothing", 20*time.Minute, w.steps(operation.Aborted, operation.CausePrecondition, 4))
		if st := w.status(); st.RolloutState != string(operation.Running) {
			t.Errorf("rollout %s: %s", st.RolloutState, st.Message)
		}
		hears(nil)
		w.until("the update", 10*time.Minute, w.complete("two"))
	})
}

// TestR74_TheWayBackIsAskedAboutToo: the platform may have withdrawn a name that it once accepted.
// The status reports that before a member is drained, when the old Revision becomes the target
// again, and after each change of leader.
func TestR74_TheWayBackIsAskedAboutToo(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		first := w.coordinator("coordinator-0")
		both := platform.Offer{OSImages: []string{"dstack-0.5.7", "dstack-0.5.9"}, InstanceTypes: []string{"tdx.small"}}
		w.offers(both)
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		next := spec("one")
		next.Template.OSImage = "dstack-0.5.9"
		w.apply(next)
		w.until("the update", 10*time.Minute, func() bool { return w.status().Stable == next.Revision() && w.status().Available == 3 })
		w.offers(platform.Offer{OSImages: []string{"dstack-0.5.9"}, InstanceTypes: []string{"tdx.small"}})
		steps := len(w.view().Operations)
		w.apply(spec("one"))
		w.until("the hold", 2*time.Minute, w.says("precondition"))
		tick(t.Context(), time.Minute)
		first.stop()
		w.coordinator("coordinator-1")
		tick(t.Context(), 2*time.Minute)
		if now := len(w.view().Operations); now != steps || w.status().Available != 3 || !w.says("precondition")() {
			t.Errorf("%d operations, %d before; %d available: %s", now, steps, w.status().Available, w.status().Message)
		}
		w.offers(both)
		w.until("the way back", 10*time.Minute, w.complete("one"))
	})
}

// TestR74_AWithdrawnOfferEndsTheStep: the member that drained for it serves again at once,
// and the end counts against no member.
func TestR74_AWithdrawnOfferEndsTheStep(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.offers(platform.Offer{OSImages: []string{"dstack-0.5.7", "dstack-0.5.9"}, InstanceTypes: []string{"tdx.small"}})
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		next := spec("one")
		next.Template.OSImage = "dstack-0.5.9"
		w.apply(next)
		w.until("a drain", time.Minute, w.steps(operation.Draining, "", 1))
		w.offers(platform.Offer{OSImages: []string{"dstack-0.5.7"}, InstanceTypes: []string{"tdx.small"}})
		w.until("its end", 10*time.Second, w.steps(operation.Aborted, operation.CausePrecondition, 1))
		tick(t.Context(), 10*time.Minute)
		if got := w.made("update"); len(got) > 0 || w.status().Available != 3 || w.status().RolloutState == string(operation.FailedState) {
			t.Errorf("calls %v, %d available, rollout %s: %s", got, w.status().Available, w.status().RolloutState, w.status().Message)
		}
	})
}

// TestR74_APinOfTwoSlotsIsAskedThroughTheOneThatGoes: a Slot that already runs the Revision needs
// no check, and proves nothing about the other Slot.
func TestR74_APinOfTwoSlotsIsAskedThroughTheOneThatGoes(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		old, two := spec("one"), spec("two")
		two.Template.OSImage = "dstack-0.5.8"
		w.apply(old)
		w.until("creation", 2*time.Minute, w.complete("one"))
		two.Instances = []group.InstanceSettings{{Ordinal: 2, PinnedRevision: old.Revision()}}
		w.apply(two)
		w.until("the update of the others", 10*time.Minute, w.runs(map[string]string{"pg-0": two.Revision(), "pg-1": two.Revision(), "pg-2": old.Revision()}))
		w.offers(platform.Offer{OSImages: []string{"dstack-0.5.8"}, InstanceTypes: []string{"tdx.small"}})
		two.Instances = append([]group.InstanceSettings{{Ordinal: 0, PinnedRevision: old.Revision()}}, two.Instances...)
		w.apply(two)
		w.until("the hold", 10*time.Minute, w.says("UPDATE of pg-0 is held, blocked(precondition)"))
		steps := len(w.view().Operations)
		tick(t.Context(), 10*time.Minute)
		if now := len(w.view().Operations); now != steps || w.status().Available != 3 {
			t.Errorf("%d operations, %d before; %d available: %s", now, steps, w.status().Available, w.status().Message)
		}
	})
}

// TestR74_SlotsBelowThePartitionNeedNoOffer: the OS image of the target is no longer offered, and
// the members that move to the target have it. A member below the partition would need it, but does
// not move.
func TestR74_SlotsBelowThePartitionNeedNoOffer(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		two := spec("two")
		two.Template.OSImage, two.UpdatePolicy.Partition = "dstack-0.5.8", 2
		w.apply(two)
		w.until("the update of the last", 10*time.Minute, w.runs(map[string]string{"pg-2": two.Revision()}))
		w.offers(platform.Offer{OSImages: []string{"dstack-0.5.7"}, InstanceTypes: []string{"tdx.small"}})
		mended := spec("three")
		mended.Template.OSImage, mended.UpdatePolicy.Partition = "dstack-0.5.8", 2
		w.apply(mended)
		w.until("its next update", 10*time.Minute, w.runs(map[string]string{"pg-2": mended.Revision()}))
	})
}
