package reconcile

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// TestUnansweredRequestsAreRemoved after a while, and no other requests go.
func TestUnansweredRequestsAreRemoved(t *testing.T) {
	now := time.Unix(1e9, 0)
	v := &view.View{
		Queue:      map[string]view.Rec[store.QueueRequest]{},
		Slots:      map[string]view.Rec[group.SlotRecord]{"pg-0": {}},
		Operations: map[string]view.Rec[operation.Operation]{"o": {}},
		Specs:      map[string]view.Spec{"pg": {}},
	}
	for id, q := range map[string]store.QueueRequest{
		"a-restart": {Kind: store.RequestRestart, Slot: "pg-0"}, "a-resolve": {Kind: store.RequestResolve, Operation: "o", As: store.ResolvedDone},
		"a-retry": {Kind: store.RequestRetry, Group: "pg"}, "b-no-kind": {Kind: "reboot", Slot: "pg-0"}, "b-no-slot": {Kind: store.RequestRestart, Slot: "pg-9"},
		"b-no-operation": {Kind: store.RequestResolve, Operation: "gone", As: store.ResolvedDone}, "b-no-group": {Kind: store.RequestRetry, Group: "web"},
		"b-half": {Kind: store.RequestReplace, Slot: "pg-0"}, "c-new": {Kind: store.RequestRestart, Slot: "pg-9", At: now},
	} {
		q.ID = id
		v.Queue[id] = view.Rec[store.QueueRequest]{Value: q, Index: 1}
	}
	r := &Reconciler{cfg: Config{Now: func() time.Time { return now }}, log: slog.New(slog.DiscardHandler)}
	want := []string{"control/queue/b-half", "control/queue/b-no-group", "control/queue/b-no-kind", "control/queue/b-no-operation", "control/queue/b-no-slot"}
	if got := keys(r.strayRequests(v)); !slices.Equal(got, want) {
		t.Errorf("%v go, want %v", got, want)
	}
}

// TestOverridesThatEndedGo, also an override of all groups. An override whose time no leader has
// counted yet stays.
func TestOverridesThatEndedGo(t *testing.T) {
	now := time.Unix(1e9, 0)
	override := func(left int) store.Override {
		return store.Override{Until: now, EndElapsed: uint64(1_000_000 + 1000*left)}
	}
	freeze := func(left int) view.Rec[store.Override] {
		return view.Rec[store.Override]{Value: store.Override{Until: now.Add(-time.Hour), EndElapsed: uint64(1_000_000 + 1000*left)}, Index: 1}
	}
	everything, uncounted := freeze(0), view.Rec[store.Override]{Value: store.Override{Until: now.Add(-time.Hour)}, Index: 1}
	v := &view.View{Overrides: map[store.OverrideKind]map[string]view.Rec[store.Override]{
		store.OverrideFreeze: {store.Everywhere: everything, "pg": freeze(-1), "web": freeze(1), "api": {Index: 1}, "new": uncounted},
		store.OverridePause:  {"pg": freeze(-1), "web": freeze(1)},
	}}
	for _, kind := range store.SlotOverrides() {
		v.Overrides[kind] = map[string]view.Rec[store.Override]{"pg-0": {Value: override(0), Index: 1}, "pg-2": {Value: override(1), Index: 1}, "pg-3": {Index: 1}}
	}
	v.Slots = map[string]view.Rec[group.SlotRecord]{"pg-0": {}}
	v.Overrides[store.OverrideGate] = map[string]view.Rec[store.Override]{
		"pg/net": {Value: override(0), Index: 1}, "pg/alarm": {Index: 1}, "web/alarm": {Value: override(1), Index: 1},
		"pg/balancer/pg-0": {Index: 1}, "pg/balancer/pg-1": {Index: 1},
	}
	v.Overrides[store.OverrideHold] = map[string]view.Rec[store.Override]{
		"pg/step_delay": {Value: store.Override{Rollout: "pg-1", Until: now, EndElapsed: 2_000_000}, Index: 1}, "pg/backoff": {Value: override(0), Index: 1},
		"web/step_delay": {Value: store.Override{Rollout: "web-1", Until: now, EndElapsed: 2_000_000}, Index: 1}, "web/backoff": {Value: override(1), Index: 1},
		"api/backoff": {Value: override(1), Index: 1},
	}
	v.Rollouts = map[string]view.Rec[operation.Rollout]{
		"pg-1": {Value: operation.Rollout{ID: "pg-1", Group: "pg", State: operation.Complete}}, "web-1": {Value: operation.Rollout{ID: "web-1", Group: "web", State: operation.FailedState}},
	}
	v.CountFrom(func() time.Time { return now.Add(-1000 * time.Second) })
	r := &Reconciler{cfg: Config{Now: func() time.Time { return now }}, log: slog.New(slog.DiscardHandler)}
	got := keys(r.endedOverrides(v))
	slices.Sort(got)
	if want := []string{"control/drain/pg-0", "control/exclude/pg-0", "control/freeze/_all", "control/freeze/pg", "control/gate/pg/balancer/pg-1", "control/gate/pg/net", "control/override/pg/backoff", "control/override/pg/step_delay", "control/override/web/backoff", "control/pause/pg", "control/protect/pg-0"}; !slices.Equal(got, want) {
		t.Errorf("%v go, want %v", got, want)
	}
}
