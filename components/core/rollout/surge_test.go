package rollout

import (
	"testing"

	"cadre.dev/core/operation"
)

// surged is a group of n that may spare nobody, in a rollout to B with an extra member, which
// is available at A.
func surged(n int, kind string) *fixture {
	f := newFixture(n+1, kind)
	zero, one := 0, 1
	f.spec.Replicas, f.rec.Status.Replicas = n, n
	f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.MaxSurgeFixed = &zero, &one
	f.rec.Slots[n].Extra = true
	return f.want("B").rolling()
}

// TestR15_AnExtraSlotIsToldAsOne for as long as it is there, on its way out too.
func TestR15_AnExtraSlotIsToldAsOne(t *testing.T) {
	f := surged(2, "none")
	check := func(when string, kind operation.Kind) {
		t.Helper()
		p := f.plan()
		if a := actionOf(t, p, "db-2"); a.Kind != kind || !a.Extra {
			t.Errorf("%s: %+v", when, a)
		}
		for _, i := range p.Status.Instances {
			if i.Extra != (i.Slot == "db-2") {
				t.Errorf("%s: %s is told as extra: %t", when, i.Slot, i.Extra)
			}
		}
	}
	check("during the rollout", operation.Update)
	f.op(2, operation.Draining, nil)
	check("in a step", operation.Update)
	f.rec.Operations = nil
	for i := range f.rec.Slots {
		f.at(i, "B")
	}
	f.rec.Rollout.State = operation.Complete
	check("after it", operation.Delete)
}
