package peer

import (
	"testing"
	"time"
)

// TestSessionsAreLookedAtTogether: whenever a look is over, the next one is at the same moment
// for all, and never further than watchEvery away.
func TestSessionsAreLookedAtTogether(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, after := range []time.Duration{0, 1, time.Millisecond, watchEvery / 2, watchEvery - 1} {
		now := start.Add(after)
		left := untilLook(now)
		if left <= 0 || left > watchEvery {
			t.Errorf("%v after a look the next one is in %v", after, left)
		}
		if at := now.Add(left); !at.Equal(start.Add(watchEvery)) {
			t.Errorf("%v after a look the next one is at %v, want %v", after, at, start.Add(watchEvery))
		}
	}
	if left := untilLook(time.Unix(-1, 1)); left <= 0 || left > 2*watchEvery {
		t.Errorf("with a clock before 1970: %v", left)
	}
}
