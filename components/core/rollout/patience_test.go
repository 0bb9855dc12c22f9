package rollout

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR38_RecoveriesAreMeasured: from the admission of a boot in an outage to the first time
// that it is ready, and nothing else; the last ones are kept.
func TestR38_RecoveriesAreMeasured(t *testing.T) {
	recovered := func(admitted, down time.Duration) *fixture {
		f := heals(3, "none")
		f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, f.now.Add(-down)
		f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-admitted)
		return f
	}
	for name, c := range map[string]struct {
		f    *fixture
		want []int
	}{
		"a boot of this outage":       {recovered(8*time.Minute, 10*time.Minute), []int{480}},
		"the same boot, ill meantime": {recovered(time.Hour, 10*time.Minute), nil},
		"not down":                    {heals(3, "none"), nil},
		"admitted in time to come":    {recovered(-time.Minute, 10*time.Minute), nil},
		"away for days":               {recovered(72*time.Hour, 73*time.Hour), []int{86400}},
	} {
		if got := c.f.plan().Slots[1].RecoveriesSec; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	f := recovered(time.Minute, 10*time.Minute)
	f.rec.Slots[1].RecoveriesSec = []int{1, 2, 3, 4, 5}
	if got := f.plan().Slots[1].RecoveriesSec; !slices.Equal(got, []int{2, 3, 4, 5, 60}) {
		t.Errorf("%v", got)
	}
	f = recovered(time.Minute, 10*time.Minute)
	f.spec.AutoHealing = nil
	if got := f.plan().Slots[1].RecoveriesSec; got != nil {
		t.Errorf("measured where nothing heals: %v", got)
	}
	f = recovered(time.Minute, 10*time.Minute).failing(1, "ready")
	if got := f.plan().Slots[1].RecoveriesSec; got != nil {
		t.Errorf("not ready, and measured: %v", got)
	}
}

// TestR87_MeasuredRecoveryProlongsPatience of healing: twice the longest, never less than the
// spec says and at most four times that. A rollout's steps have the spec's deadline.
func TestR87_MeasuredRecoveryProlongsPatience(t *testing.T) {
	const says = group.DefaultInitialDelay
	for _, c := range []struct {
		took []int
		want time.Duration
	}{
		{nil, says}, {[]int{60, 30}, says}, {[]int{30, 240, 60}, 8 * time.Minute}, {[]int{7200}, 4 * says},
	} {
		f := heals(3, "none").failing(1, "ready")
		f.rec.Slots[1].RecoveriesSec, f.rec.Slots[1].AvailableBoot = c.took, "the one before"
		f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-c.want + time.Second)
		wantExecutes(t, f.plan())
		f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-c.want)
		wantExecutes(t, f.plan(), "RESTART db-1")
	}
	f := heals(3, "none").failing(1, "ready")
	healthy := group.HealthyDeadline(f.spec)
	f.rec.Slots[1].RecoveriesSec = []int{int(healthy / time.Second)}
	op := operation.Operation{ID: "o", Slot: "db-1", Kind: operation.Restart, Actor: operation.ActorHealing, Way: operation.Way{Service: "app"}, Phase: operation.Booting}
	if got := f.facts(op).Limits; got.Healthy != 2*healthy || got.Service != mostPatience*serviceWithin {
		t.Errorf("healing waits %s, for a service %s", got.Healthy, got.Service)
	}
	op.Actor = operation.ActorRollout
	if got := f.facts(op).Limits; got.Healthy != healthy || got.Service != serviceWithin {
		t.Errorf("the rollout waits %s", got.Healthy)
	}
	nothing := 0
	f.spec.AutoHealing.InitialDelaySec = &nothing
	f.obs.Slots[1].Admission.AdmittedAt = f.now
	wantExecutes(t, f.plan(), "RESTART db-1") // who wants no delay gets none
}
