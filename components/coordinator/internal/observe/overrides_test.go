package observe_test

import (
	"testing"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

type noReports struct{}

func (noReports) Of(string) (reports.Received, bool) { return reports.Received{}, false }

// The freeze that ends last is returned at any time. The planner decides by its own clock whether
// it is over, a moment after the platform's list was made.
func TestTheFreezeThatEndsLastIsSeen(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	soon, late, never := now.Add(time.Second), now.Add(time.Hour), time.Time{}
	for _, c := range []struct {
		name          string
		global, group *time.Time
		want          string
	}{
		{"none", nil, nil, ""},
		{"of everything alone", &soon, nil, "everything"},
		{"of the group alone", nil, &soon, "pg"},
		{"the group's is longer", &soon, &late, "pg"},
		{"the group's has no end", &soon, &never, "pg"},
		{"that of everything is longer", &late, &soon, "everything"},
		{"that of everything has no end", &never, &late, "everything"},
		{"neither has an end", &never, &never, "everything"},
	} {
		freezes := map[string]view.Rec[store.Override]{}
		v := &view.View{Overrides: map[store.OverrideKind]map[string]view.Rec[store.Override]{store.OverrideFreeze: freezes}}
		if c.global != nil {
			freezes[store.Everywhere] = view.Rec[store.Override]{Value: store.Override{Reason: "everything", Until: *c.global}}
		}
		if c.group != nil {
			freezes["pg"] = view.Rec[store.Override]{Value: store.Override{Reason: "pg", Until: *c.group}}
		}
		seen := observe.Group(v, group.Spec{Name: "pg"}, "prod", observe.Listing{At: now}, noReports{}).Now
		if got := seen.Freeze; (got != nil) != (c.want != "") || got != nil && got.Reason != c.want {
			t.Errorf("%s: freeze %+v, want %q", c.name, got, c.want)
		}
	}
}
