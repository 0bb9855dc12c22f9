package rig

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
)

func TestTheFirmwareDrillFails(t *testing.T) {
	good := DayReport{Boots: plannedBoots, UsualGapS: 0.4, DayGapS: 1, AwayS: 9}
	if err := good.Check(); err != nil {
		t.Fatalf("a cluster that went through the day: %v", err)
	}
	lost, refused, booted, away, blind := good, good, good, good, good
	blind.AwayS = 0
	lost.Lost, refused.Refusals, booted.Boots, away.DayGapS = []string{"light-1"}, []string{"TCB_OUT_OF_DATE"}, plannedBoots+1, 1.5
	for want, r := range map[string]DayReport{
		"lost their CVMs: light-1": lost, "1 admissions were refused, the first one: TCB_OUT_OF_DATE": refused,
		"booted 8 times since the day, want 7": booted, "did not answer for 1.5 s, usual are 0.4 s": away, "nothing was measured": blind,
	} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

func TestTheDrillOfALateHostFails(t *testing.T) {
	good := LateReport{
		Refused: "TCB_OUT_OF_DATE: the TCB is OutOfDate; its grace of 425 days ended on 2026-11-28", Next: []string{"give it time: `tcb.grace_days`"}, Available: 2,
	}
	if err := good.Check(); err != nil {
		t.Fatalf("a host that was late: %v", err)
	}
	other, never, lost, down := good, good, good, good
	other.Refused, never.Refused, lost.Next, down.Available = "BOOT_SUPERSEDED: its grace of 425 days ended on 2026-11-28", "TCB_OUT_OF_DATE", nil, 1
	for want, r := range map[string]LateReport{
		`does not say "TCB_OUT_OF_DATE"`: other, `does not say "its grace of 425 days`: never, "names no way out": lost, "1 members were available": down,
	} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

func TestTheStatusIsComparedWithTheWantedOne(t *testing.T) {
	const status = "cluster demo\nlight-1: ends in 60 days: the machine is OutOfDate\nlight-0: will be out of date on about 2026-11-29: early\nother-0: ends in 3 days: x\n"
	lines := linesOfMachines(status)
	want := map[string]string{"light-0": "will be out of date on about 2026-11-29: ", "light-1": "ends in 60 days: "}
	said := []group.Condition{{Type: conditionIs, Message: "light-1: the TCB is OutOfDate"}, {Type: conditionStays, Message: "light-0: will be OutOfDate"}}
	if err := wantMachines(lines, want); err != nil {
		t.Errorf("%q: %v", lines, err)
	}
	if err := wantConditions(said, want); err != nil {
		t.Error(err)
	}
	for _, other := range []map[string]string{
		nil, {"light-0": want["light-0"]}, {"light-0": want["light-0"], "light-1": "ends in 59 days: "}, {"light-0": want["light-0"], "light-2": want["light-1"]},
	} {
		if wantMachines(lines, other) == nil {
			t.Errorf("%q passes as %v", lines, other)
		}
	}
	for _, conditions := range [][]group.Condition{nil, said[:1], {said[1], {Type: conditionIs, Message: "light-1: x; light-2: y"}}} {
		if wantConditions(conditions, want) == nil {
			t.Errorf("%v passes as %v", conditions, want)
		}
	}
}

// A span counts from when the second member went away until fewer are away, or until the end.
func TestTheLongestTimeWithoutTwoMembers(t *testing.T) {
	at := time.Unix(0, 0)
	seen := &answers{away: map[string]time.Time{}}
	for _, step := range []struct {
		slot     string
		answered bool
		after    time.Duration
		worst    time.Duration
	}{
		{"light-0", false, 0, 0}, {"light-0", false, 5 * time.Second, 0}, {"light-1", false, time.Second, 0},
		{"light-2", false, time.Second, time.Second}, {"light-2", true, time.Second, 2 * time.Second}, {"light-0", true, time.Second, 3 * time.Second},
		{"light-2", false, time.Minute, 3 * time.Second}, {"light-1", true, time.Second, 3 * time.Second}, {"light-2", true, time.Minute, 3 * time.Second},
	} {
		at = at.Add(step.after)
		if seen.note(step.slot, step.answered, at); seen.worstFew != step.worst {
			t.Errorf("%+v: the longest time is %s", step, seen.worstFew)
		}
	}
	if want := 64 * time.Second; seen.worstOne != want {
		t.Errorf("one member was away for %s, want %s", seen.worstOne, want)
	}
}
