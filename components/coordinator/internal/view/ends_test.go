package view

import (
	"testing"
	"time"

	"cadre.dev/store"
)

// TestTheEndOfASwitchFollowsElapsedTime: this holds once a leader has computed the end, and until
// then the record's time applies.
func TestTheEndOfASwitchFollowsElapsedTime(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	v := (&View{}).CountFrom(func() time.Time { return now.Add(-time.Hour) })
	for name, c := range map[string]struct {
		override store.Override
		want     time.Time
	}{
		"no end":              {store.Override{}, time.Time{}},
		"no end, and a count": {store.Override{EndElapsed: 1}, time.Time{}},
		"not counted":         {store.Override{Until: now.Add(time.Minute)}, now.Add(time.Minute)},
		"counted":             {store.Override{Until: now.Add(-48 * time.Hour), EndElapsed: 90 * 60 * 1000}, now.Add(30 * time.Minute)},
		"absurd":              {store.Override{Until: now, EndElapsed: 1<<64 - 1}, now.Add(store.MaxElapsed*time.Millisecond - time.Hour)},
	} {
		if got := v.End(c.override); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if (&View{}).CountLike(v).Stands(store.Override{Until: now.Add(48 * time.Hour), EndElapsed: 1}, now) {
		t.Error("a switch whose time elapsed stands")
	}
}
