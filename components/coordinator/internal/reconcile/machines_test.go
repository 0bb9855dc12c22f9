package reconcile

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestATT04_TheStatusSaysWhenAMachineIsRefused: in days, soonest first, and only while a Boot that
// holds a Slot depends on a tolerance of the trust file.
func TestATT04_TheStatusSaysWhenAMachineIsRefused(t *testing.T) {
	now, day := time.Date(2026, 8, 13, 12, 0, 0, 0, time.UTC), 24*time.Hour
	old := policy.TCB{Status: "OutOfDate", ReplacedAt: now.Add(-365 * day)}
	older := policy.TCB{Status: "OutOfDate", ReplacedAt: now.Add(-400 * day)}
	s := storetest.NewMemory()
	var ops []store.Op
	for slot, a := range map[string]policy.Admission{
		"pg-0": {BootID: "b0", Claims: policy.Claims{TCB: old}}, "pg-1": {BootID: "b1", Claims: policy.Claims{TCB: older}},
		"pg-2": {BootID: "b2", Claims: policy.Claims{TCB: policy.TCB{Status: "UpToDate"}}}, "pg-3": {Claims: policy.Claims{TCB: old}},
	} {
		a.Group, a.Slot = "pg", slot
		put, err := store.Put(store.AdmissionKey(slot), a, 0)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, put, store.Op{Kind: store.OpPut, Key: store.SlotKey("pg", slot), Value: []byte(`{"group":"pg","slot":"` + slot + `"}`)})
	}
	if err := s.Commit(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	v, err := view.Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for days, want := range map[int]string{
		0: "", 365: "",
		366: "pg-0: the TCB is OutOfDate, tolerance ends in 1 days (2026-08-14)",
		425: "pg-1: the TCB is OutOfDate, tolerance ends in 25 days (2026-09-07); pg-0: the TCB is OutOfDate, tolerance ends in 60 days (2026-10-12)",
	} {
		p := &pass{Reconciler: &Reconciler{cfg: Config{Store: s, Images: policy.ImagePolicy{TCB: policy.TCBPolicy{GraceDays: days}}}}, name: "pg", view: v, now: now}
		got, found := p.tolerated()
		if found != (want != "") || got.Message != want || got.Status || found && !strings.Contains(got.Reason, "TCB_OUT_OF_DATE") {
			t.Errorf("grace of %d days: %+v, %t; want %q", days, got, found, want)
		}
		ends := map[int]float64{366: float64(now.Add(day).Unix()), 425: float64(now.Add(25 * day).Unix())}[days]
		if got := v.ToleranceEnds(p.cfg.Images.TCB, now); got != ends {
			t.Errorf("grace of %d days: the gauge says %.0f, want %.0f", days, got, ends)
		}
	}
}

// TestATT04_TheStatusForetellsWhenAMachineFallsBehind: a machine is UpToDate, and the early set
// lists it as out of date. The status and a gauge name the machine and the date from the signed
// dates.
func TestATT04_TheStatusForetellsWhenAMachineFallsBehind(t *testing.T) {
	now, day := time.Date(2026, 6, 13, 12, 0, 0, 0, time.UTC), 24*time.Hour
	tcb := func(number uint32, replaced time.Time) policy.TCB {
		return policy.TCB{Status: "UpToDate", EvaluationNumber: 19, Early: policy.EarlyTCB{Status: "OutOfDate", EvaluationNumber: number, ReplacedAt: replaced}}
	}
	v := &view.View{Admissions: map[string]view.Rec[policy.Admission]{}, Slots: map[string]view.Rec[group.SlotRecord]{}}
	for slot, has := range map[string]policy.TCB{
		"pg-0": tcb(20, time.Date(2025, 8, 13, 0, 0, 0, 0, time.UTC)), "pg-1": tcb(20, time.Time{}), "pg-2": tcb(18, now.Add(-300*day)), "pg-3": {Status: "UpToDate"},
	} {
		v.Admissions[slot] = view.Rec[policy.Admission]{Value: policy.Admission{Group: "pg", Slot: slot, BootID: "b", Claims: policy.Claims{TCB: has}}}
		v.Slots[slot] = view.Rec[group.SlotRecord]{Value: group.SlotRecord{Group: "pg", Slot: slot, Ordinal: int(slot[3] - '0')}}
	}
	p := &pass{Reconciler: &Reconciler{}, name: "pg", view: v, now: now}
	got, found := p.expectedOutOfDate()
	want := "pg-1: Intel's early set (evaluation 20) calls the machine OutOfDate; the signed dates do not say when the standard set follows; " +
		"pg-0: will be OutOfDate on about 2026-08-13 (Intel's early set, evaluation 20)"
	if !found || got.Message != want || got.Status || got.Type != "MachinesStayUpToDate" {
		t.Errorf("%+v, %t; want %q", got, found, want)
	}
	if _, tolerated := p.tolerated(); tolerated {
		t.Error("an expected change counts as tolerated")
	}
	if at := v.MachinesOutOfDateAt(); at != float64(time.Date(2026, 8, 13, 0, 0, 0, 0, time.UTC).Unix()) {
		t.Errorf("the gauge says %.0f", at)
	}
	if (&view.View{}).MachinesOutOfDateAt() != 0 {
		t.Error("a gauge without members")
	}
}

// The status names members that provably share a machine, and instances that showed another one.
func TestTheStatusNamesSharedAndChangedMachines(t *testing.T) {
	now := time.Date(2026, 6, 13, 12, 0, 0, 0, time.UTC)
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	v := &view.View{Machines: map[string]view.Rec[policy.MachineRecord]{}, Slots: map[string]view.Rec[group.SlotRecord]{}, Policies: map[string]view.Rec[policy.SlotPolicy]{}}
	for slot, m := range map[string]policy.MachineRecord{
		"pg-0": {Machine: one}, "pg-1": {Machine: one, Before: two, Since: now.Add(-6 * 24 * time.Hour)},
		"pg-2": {Machine: two, Before: one, Since: now.Add(-8 * 24 * time.Hour)}, "pg-3": {Machine: one, InstanceID: "replaced"}, "pg-4": {},
	} {
		m.Group, m.Slot = "pg", slot
		if m.InstanceID == "" {
			m.InstanceID = "bound"
		}
		v.Machines[slot] = view.Rec[policy.MachineRecord]{Value: m}
		v.Slots[slot] = view.Rec[group.SlotRecord]{Value: group.SlotRecord{Group: "pg", Slot: slot, Ordinal: int(slot[3] - '0')}}
		v.Policies[slot] = view.Rec[policy.SlotPolicy]{Value: policy.SlotPolicy{Group: "pg", Slot: slot, InstanceID: "bound"}}
	}
	p := &pass{Reconciler: &Reconciler{}, name: "pg", view: v, now: now}
	if got, found := p.sharedMachines(); found {
		t.Errorf("without a spread: %+v", got)
	}
	p.seen.Spec.Placement.Spread = group.SpreadMachine
	if got, found := p.sharedMachines(); !found || !strings.HasPrefix(got.Message, "pg-0, pg-1 share machine 1111111111111111, max_per is 1") || got.Status || got.Reason != "MACHINE_SHARED" {
		t.Errorf("%+v, %t", got, found)
	}
	p.seen.Spec.Placement.MaxPer = 2
	if got, found := p.sharedMachines(); found {
		t.Errorf("two may share one: %+v", got)
	}
	if got, found := p.changedMachines(); !found || got.Message != "pg-1: machine 1111111111111111 since 2026-06-07, 2222222222222222 before: registered again, or the CVM moved" {
		t.Errorf("%+v, %t", got, found)
	}
	if got := v.OnMachineOf("pg", "pg-1"); len(got) != 1 || got[0] != "pg-0" {
		t.Errorf("on the machine of pg-1: %v", got)
	}
}
