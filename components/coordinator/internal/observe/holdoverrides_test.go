package observe_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// TestR141_OnlyABoundedOverrideWithAReasonIsSeen: a record that the API would not write passes no hold.
func TestR141_OnlyABoundedOverrideWithAReasonIsSeen(t *testing.T) {
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	of := func(reason string, length time.Duration) view.Rec[store.Override] {
		return view.Rec[store.Override]{Value: store.Override{Reason: reason, By: "ann", At: at, Until: at.Add(length), Rollout: "pg-2"}}
	}
	v := &view.View{Overrides: map[store.OverrideKind]map[string]view.Rec[store.Override]{store.OverrideHold: {
		"pg/step_delay": of("now", time.Hour), "web/backoff": of("now", time.Hour), "pg/busy": of(" ", time.Hour), "pg/max_unavailable": of("now", 25*time.Hour), "pg/voter_cap": {}, "pg": {},
	}}}
	got := observe.Group(v, group.Spec{Name: "pg"}, "prod", observe.Listing{At: at}, noReports{}).Now.HoldOverrides
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"step_delay"}) {
		t.Fatalf("overrides of %v", names)
	}
	if o := got["step_delay"]; o.Rollout != "pg-2" || o.Reason != "now" || o.By != "ann" || !o.Until.Equal(at.Add(time.Hour)) {
		t.Errorf("override %+v", o)
	}
}
