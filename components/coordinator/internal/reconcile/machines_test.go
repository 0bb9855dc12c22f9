package reconcile

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestATT04_TheStatusSaysWhenAMachineIsRefused: in days, the first to end first, and only while a
// tolerance of the trust file carries a Boot that holds a Slot.
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
