package rollout

import (
	"slices"
	"testing"
)

// TestR67_TheBoundOneFillsTheSlot: without a bound CVM, every evaluation chooses the same one.
func TestR67_TheBoundOneFillsTheSlot(t *testing.T) {
	for bound, want := range map[string][]string{
		"vm-2": {"vm-2", "vm-1", "vm-3"}, "": {"vm-1", "vm-2", "vm-3"}, "vm-9": {"vm-1", "vm-2", "vm-3"},
	} {
		for _, listed := range [][]string{{"vm-1", "vm-2", "vm-3"}, {"vm-3", "vm-2", "vm-1"}, {"vm-2", "vm-3", "vm-1"}} {
			var found []Instance
			for _, uuid := range listed {
				found = append(found, Instance{VMUUID: uuid})
			}
			fills, duplicates := Filling(bound, found)
			got := []string{fills.VMUUID}
			for _, d := range duplicates {
				got = append(got, d.VMUUID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("bound to %q, listed %v: %v, want %v", bound, listed, got, want)
			}
		}
	}
	if fills, duplicates := Filling("vm-1", nil); fills != nil || duplicates != nil {
		t.Errorf("nothing is listed: %+v, %+v", fills, duplicates)
	}
}
