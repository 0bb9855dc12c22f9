package rollout

import (
	"testing"
	"time"
)

// TestR120_WhenAFleetIsDark: from so many agents on, and from so great a share that is silent.
func TestR120_WhenAFleetIsDark(t *testing.T) {
	large := darkFrom * darkShare
	for name, c := range map[string]struct {
		f    Fleet
		want bool
	}{
		"nobody is expected":  {Fleet{}, false},
		"all are heard":       {Fleet{Expected: large, Heard: large}, false},
		"the share is silent": {Fleet{Expected: large, Heard: large - darkFrom}, true},
		"one less":            {Fleet{Expected: large, Heard: large - darkFrom + 1}, false},
		"enough of them":      {Fleet{Expected: darkFrom}, true},
		"too few":             {Fleet{Expected: darkFrom - 1}, false},
		"more than expected":  {Fleet{Expected: large, Heard: large + 1}, false},
	} {
		if got := c.f.dark(time.Time{}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
