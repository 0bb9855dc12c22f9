package overlay_test

import (
	"testing"

	"cadre.dev/overlay"
)

func TestProcessorsLeaveTheMostToTheWorkload(t *testing.T) {
	for machine, want := range map[int]int{1: 1, 2: 1, 4: 1, 7: 1, 8: 2, 64: 16} {
		if got := overlay.Processors(machine); got != want {
			t.Errorf("of %d: %d, want %d", machine, got, want)
		}
	}
}
