package raced_test

import (
	"testing"

	"cadre.dev/raced"
)

func TestATenthIsNeverNothing(t *testing.T) {
	for n, under := range map[int]int{0: 0, 1: 1, 9: 1, 10: 1, 11: 2, 100: 10} {
		want := n
		if raced.Enabled {
			want = under
		}
		if got := raced.Tenth(n); got != want {
			t.Errorf("Tenth(%d) is %d, want %d", n, got, want)
		}
	}
}
