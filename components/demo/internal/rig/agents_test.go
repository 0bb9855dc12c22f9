package rig

import (
	"testing"
	"time"
)

func TestTheUsageOfAProcessIsRead(t *testing.T) {
	const stat = "77 (a) b) S 1 77 77 0 -1 4194560 500 0 0 0 120 30 0 0 20 0 8 0 1000 2000 300"
	if got, err := cpuIn(stat); err != nil || got != 1500*time.Millisecond {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := cpuIn("77 (a) S 1"); err == nil {
		t.Error("a line that was cut is read")
	}
	const rollup = "5583 - 7fff [rollup]\nRss:      22496 kB\nPss:      13048 kB\nPss_Anon:  4516 kB\n"
	if got := kib(rollup, "Pss:"); got != 13048 {
		t.Errorf("Pss %v", got)
	}
	if got := kib(rollup, "Swap:"); got != 0 {
		t.Errorf("Swap %v", got)
	}
}

func TestTheSlotOfAnAgent(t *testing.T) {
	if got := slotIn([]byte("CADRE_GROUP='postgres'\nCADRE_SLOT='postgres-2'\nCADRE_VIP='127.50.1.2'\n")); got != "postgres-2" {
		t.Errorf("got %q", got)
	}
	if got := slotIn([]byte("CADRE_SLOT='../x'\n")); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestWhereTheSecondsOfARolloutGo(t *testing.T) {
	got := phaseSums([]SlotReport{
		{PhasesMS: map[string]int64{"JOINING": 1500, "BOOTING": 3000}, PlatformMS: 2500},
		{PhasesMS: map[string]int64{"JOINING": 500}, PlatformMS: 1000},
	})
	for name, want := range map[string]float64{"all_joining_s": 2, "all_booting_s": 3, "all_platform_s": 3.5} {
		if got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
}
