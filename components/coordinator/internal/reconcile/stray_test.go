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

// TestRequestsThatNobodyAnswersGo after a while, and no other ones.
func TestRequestsThatNobodyAnswersGo(t *testing.T) {
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

// TestMarksThatEndedGo a while later, also that of all groups.
func TestMarksThatEndedGo(t *testing.T) {
	now := time.Unix(1e9, 0)
	freeze := func(ago time.Duration) view.Rec[store.Freeze] {
		return view.Rec[store.Freeze]{Value: store.Freeze{Until: now.Add(-ago)}, Index: 1}
	}
	everything, just := freeze(markKept), freeze(markKept-time.Second)
	v := &view.View{Freeze: &everything, Freezes: map[string]view.Rec[store.Freeze]{"pg": freeze(markKept), "web": freeze(-time.Hour), "api": {Index: 1}}}
	r := &Reconciler{cfg: Config{Now: func() time.Time { return now }}, log: slog.New(slog.DiscardHandler)}
	if got, want := keys(r.endedMarks(v)), []string{"control/freeze", "control/freeze/pg"}; !slices.Equal(got, want) {
		t.Errorf("%v go, want %v", got, want)
	}
	mark := func(ago time.Duration) view.Rec[store.SlotMark] {
		return view.Rec[store.SlotMark]{Value: store.SlotMark{Until: now.Add(-ago)}, Index: 1}
	}
	v.Marks = map[store.MarkKind]map[string]view.Rec[store.SlotMark]{}
	for _, kind := range store.MarkKinds() {
		v.Marks[kind] = map[string]view.Rec[store.SlotMark]{"pg-0": mark(markKept), "pg-1": mark(markKept - time.Second), "pg-2": mark(-time.Hour), "pg-3": {Index: 1}}
	}
	v.Freeze, v.Freezes = nil, nil
	got := keys(r.endedMarks(v))
	slices.Sort(got)
	if want := []string{"control/drain/pg-0", "control/exclude/pg-0", "control/protect/pg-0"}; !slices.Equal(got, want) {
		t.Errorf("%v go, want %v", got, want)
	}
	if v.Freeze = &just; slices.Contains(keys(r.endedMarks(v)), "control/freeze") {
		t.Error("it goes before anybody could look at it")
	}
}
