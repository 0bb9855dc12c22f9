package peer

import (
	"testing"
	"time"
)

// A Peer ignores a search with an epoch below the highest that it has seen (OVL-03).
func TestEpochsGoOnWhenTheClockIsSetBack(t *testing.T) {
	var e Epochs
	if got := e.base(time.Unix(-1, 0)); got != 0 {
		t.Errorf("before 1970 the epochs begin after %d", got)
	}
	now := time.Unix(1_700_000_000, 0)
	first := e.base(now)
	e.raise(first + 3)
	e.raise(first + 1)
	if got := e.base(now.Add(-time.Hour)); got != first+3 {
		t.Errorf("an hour back the epochs begin after %d, want %d", got, first+3)
	}
	if got := e.base(now.Add(time.Hour)); got <= first+3 {
		t.Errorf("an hour on the epochs begin after %d, want more than %d", got, first+3)
	}
}
