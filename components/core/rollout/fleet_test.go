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

// TestR120_ASplitCountsFromWhenSilenceBegan: a member that was away for other reasons before is cut off
// like the others, and one that fell silent on another day is not one of them.
func TestR120_ASplitCountsFromWhenSilenceBegan(t *testing.T) {
	f := heals(3, "none")
	f.failing(1, "ready") // since long, and heard until a moment ago
	f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, f.now.Add(-40*time.Minute)
	heard := f.now.Add(-20 * time.Second)
	f.obs.Slots[1].Report.ReceivedAt = heard
	f.obs.Fleet = Fleet{Expected: 30, Heard: 20}
	for range 9 {
		f.obs.Fleet.Silences = append(f.obs.Fleet.Silences, f.now.Add(-10*time.Second))
	}
	p := f.plan()
	wantExecutes(t, p)
	if got := p.Slots[1].SilenceFrom; !got.Equal(heard) {
		t.Fatalf("silent from %s, heard at %s", got, heard)
	}
	f.rec.Slots[1], f.obs.Slots[1].Report = p.Slots[1], nil
	f.now = f.now.Add(4 * time.Minute)
	f.obs.At = f.now
	p = f.plan()
	wantExecutes(t, p)
	if got := p.Slots[1].SilenceFrom; !got.Equal(f.now) {
		t.Errorf("in a split silence counts from %s, not %s", got, f.now)
	}
}
