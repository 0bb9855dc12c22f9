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

// TestTheSettingsAboutGatesOfTheSpecAreSeen: also an unreadable one, which has no state.
func TestTheSettingsAboutGatesOfTheSpecAreSeen(t *testing.T) {
	settings := map[string]view.Rec[store.Override]{
		"pg/balancer/pg-0": {Value: store.Override{State: "open", Ticket: "t", Reason: "out", By: "lb"}}, "pg/alarm": {},
		"pg/other": {}, "web/alarm": {}, "pg": {}, "pg/balancer/web-0": {}, "pg/balancer/pg-0/x": {},
	}
	v := &view.View{Overrides: map[store.OverrideKind]map[string]view.Rec[store.Override]{store.OverrideGate: settings}}
	spec := group.Spec{Name: "pg", Gates: []group.Gate{{Name: "balancer"}, {Name: "alarm"}, {Name: "network"}}}
	got := observe.Group(v, spec, "prod", observe.Listing{At: time.Unix(1e9, 0)}, noReports{}).Now.Gates
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"alarm", "balancer/pg-0"}) {
		t.Fatalf("settings of %v", names)
	}
	if w := got["balancer/pg-0"]; w.State != "open" || w.Ticket != "t" || w.Reason != "out" || w.By != "lb" || got["alarm"].State != "" {
		t.Errorf("settings %+v, %+v", got["balancer/pg-0"], got["alarm"])
	}
}
