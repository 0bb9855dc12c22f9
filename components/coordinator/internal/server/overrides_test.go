package server

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// TestR139_AnOverrideIsARecordWithAnEnd: the record has the operator, the reason and the end. A
// second call changes the end, and the same name clears the override.
func TestR139_AnOverrideIsARecordWithAnEnd(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	drain := &apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, Name: "pg-0", For: durationpb.New(2 * time.Hour), Reason: "its host is mended"}
	out, err := a.SetOverride(ctx, drain)
	if err != nil || !out.GetChanged() {
		t.Fatalf("%v, %v", out, err)
	}
	if left := out.GetOverride().GetLeft().AsDuration(); left > 2*time.Hour || left < 2*time.Hour-time.Minute {
		t.Errorf("%v is left of two hours", left)
	}
	got, _, err := store.Read[store.Override](t.Context(), a.cfg.Store, store.OverrideKey(store.OverrideDrain, "pg-0"))
	if err != nil || got.Reason != drain.GetReason() || !strings.Contains(got.By, "cadre-operator") || got.Until.Sub(got.At) != 2*time.Hour {
		t.Errorf("%+v, %v", got, err)
	}
	forever := &apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, Name: "pg-0", Reason: "longer"}
	for _, changed := range []bool{true, false} {
		if out, err := a.SetOverride(ctx, forever); err != nil || out.GetChanged() != changed || out.GetOverride().GetUntil() != nil {
			t.Errorf("%v, %v, want changed %v", out, err, changed)
		}
	}
	for _, changed := range []bool{true, false} {
		if out, err := a.ClearOverride(ctx, &apiv1.ClearOverrideRequest{Kind: drain.GetKind(), Name: "pg-0"}); err != nil || out.GetChanged() != changed {
			t.Errorf("%v, %v, want changed %v", out, err, changed)
		}
	}
	if _, _, err := store.Read[store.Override](t.Context(), a.cfg.Store, store.OverrideKey(store.OverrideDrain, "pg-0")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("still there: %v", err)
	}
}

// TestR138_ASlotIsShownWithItsHolds: the single answer, the list and the record have the same
// holds.
func TestR138_ASlotIsShownWithItsHolds(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	if _, err := a.SetOverride(ctx, &apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_FREEZE, Name: "pg", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.RestartInstance(ctx, &apiv1.RestartInstanceRequest{Slot: "pg-0", Reason: "it leaks"}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.SetOverride(ctx, &apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE, Name: "pg-0", For: durationpb.New(2 * time.Hour), Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	one, err := a.DescribeInstance(ctx, &apiv1.DescribeInstanceRequest{Slot: "pg-0"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := a.ListInstances(ctx, &apiv1.ListInstancesRequest{Group: "pg"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(all.GetInstancesJson(), one.GetInstanceJson()) {
		var i group.InstanceStatus
		if err := json.Unmarshal(text, &i); err != nil {
			t.Fatal(err)
		}
		if i.Slot == "pg-0" && (i.Exclusion == nil || i.Exclusion.LeftSeconds > 7200 || i.Exclusion.LeftSeconds < 7140) {
			t.Errorf("of the exclusion: %+v", i.Exclusion)
		}
		if !slices.ContainsFunc(i.Holds, func(h group.Hold) bool { return h.Predicate == rollout.HoldFrozen }) {
			t.Errorf("%s: %v", i.Slot, i.Holds)
		}
	}
}

// A name of no Slot and no group is misspelt, and the call is rejected. The override of a removed
// Slot can be cleared.
func TestAnOverrideOnNothingIsNotTakenBack(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	const freeze, protect = apiv1.OverrideKind_OVERRIDE_KIND_FREEZE, apiv1.OverrideKind_OVERRIDE_KIND_PROTECT
	left := store.Override{Reason: "r", By: "ann", At: a.cfg.Now()}
	op, err := store.Put(store.OverrideKey(store.OverrideProtect, "pg-8"), left, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cfg.Store.Commit(ctx, op); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kind apiv1.OverrideKind
		name string
		code codes.Code
	}{
		"a slot without one":      {protect, "pg-0", codes.OK},
		"a slot that is gone":     {protect, "pg-8", codes.OK},
		"no such slot":            {protect, "pg-9", codes.NotFound},
		"a group without one":     {freeze, "pg", codes.OK},
		"everything, without one": {freeze, "", codes.OK},
		"no such group":           {freeze, "gp", codes.NotFound},
	} {
		out, err := a.ClearOverride(ctx, &apiv1.ClearOverrideRequest{Kind: c.kind, Name: c.name})
		if status.Code(err) != c.code || out.GetChanged() != (c.name == "pg-8") {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
}

func TestOverridesThatStandAreListed(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	for _, set := range []*apiv1.SetOverrideRequest{
		{Kind: apiv1.OverrideKind_OVERRIDE_KIND_FREEZE, Reason: "r"},
		{Kind: apiv1.OverrideKind_OVERRIDE_KIND_FREEZE, Name: "pg", Reason: "r"},
		{Kind: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, Name: "pg-0", Reason: "r", For: durationpb.New(time.Hour)},
		{Kind: apiv1.OverrideKind_OVERRIDE_KIND_PROTECT, Name: "pg-0", Reason: "r"},
		{Kind: apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE, Name: "pg-0", Reason: "r"},
	} {
		if _, err := a.SetOverride(ctx, set); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (out []string) {
		list, err := a.ListOverrides(ctx, &apiv1.ListOverridesRequest{Group: "pg"})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list.GetOverrides() {
			out = append(out, strings.TrimPrefix(m.GetKind().String(), "OVERRIDE_KIND_")+" "+m.GetName())
		}
		return out
	}
	if got := strings.Join(names(), ", "); got != "DRAIN pg-0, PROTECT pg-0, FREEZE , FREEZE pg, EXCLUDE pg-0" {
		t.Errorf("overrides %s", got)
	}
	a.mu.Lock()
	a.offset = time.Hour
	a.mu.Unlock()
	if got := strings.Join(names(), ", "); got != "PROTECT pg-0, FREEZE , FREEZE pg, EXCLUDE pg-0" {
		t.Errorf("an hour later: %s", got)
	}
}

// TestR139_AnExclusionNamesItsActivities: a different exclusion in its place is a change.
func TestR139_AnExclusionNamesItsActivities(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	for _, c := range []struct {
		from    []string
		changed bool
	}{{nil, true}, {nil, false}, {[]string{group.FromHealing}, true}, {[]string{group.FromHealing}, false}, {[]string{group.FromRollout, group.FromHealing}, true}} {
		out, err := a.SetOverride(ctx, &apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE, Name: "pg-0", Reason: "it is measured", From: c.from})
		if err != nil || out.GetChanged() != c.changed || !slices.Equal(out.GetOverride().GetFrom(), c.from) {
			t.Errorf("from %v: %v, %v; want changed %t", c.from, out, err, c.changed)
		}
		got, _, err := store.Read[store.Override](t.Context(), a.cfg.Store, store.OverrideKey(store.OverrideExclude, "pg-0"))
		if err != nil || !slices.Equal(got.From, c.from) {
			t.Errorf("from %v: the record has %+v, %v", c.from, got, err)
		}
	}
	list, err := a.ListOverrides(ctx, &apiv1.ListOverridesRequest{Group: "pg"})
	if err != nil || len(list.GetOverrides()) != 1 || len(list.GetOverrides()[0].GetFrom()) != 2 {
		t.Errorf("listed: %v, %v", list, err)
	}
}

// TestR139_ADrainOfAProtectedSlotIsRefused: the protection would hold the drain. An existing drain
// can get another end.
func TestR139_ADrainOfAProtectedSlotIsRefused(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	set := func(kind apiv1.OverrideKind, length *durationpb.Duration) error {
		_, err := a.SetOverride(ctx, &apiv1.SetOverrideRequest{Kind: kind, Name: "pg-0", Reason: "a report runs on it", For: length})
		return err
	}
	const drain, protect = apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, apiv1.OverrideKind_OVERRIDE_KIND_PROTECT
	if err := set(protect, durationpb.New(time.Hour)); err != nil {
		t.Fatal(err)
	}
	err := set(drain, nil)
	if text := message(err); status.Code(err) != codes.FailedPrecondition || !strings.Contains(text, "a report runs on it") ||
		!strings.Contains(text, "cadre instance unprotect pg-0") || !strings.Contains(text, "until ") {
		t.Errorf("protected: %v", err)
	}
	a.mu.Lock()
	a.offset = time.Hour
	a.mu.Unlock()
	if err := set(drain, nil); err != nil {
		t.Errorf("the protection is over: %v", err)
	}
	if err := errors.Join(set(protect, nil), set(drain, durationpb.New(time.Hour))); err != nil {
		t.Errorf("drained before it was protected: %v", err)
	}
}

func TestAnOverrideOnNothingIsRefused(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	for name, c := range map[string]struct {
		req  *apiv1.SetOverrideRequest
		want codes.Code
		text string
	}{
		"no kind":          {&apiv1.SetOverrideRequest{Name: "pg-0", Reason: "r"}, codes.InvalidArgument, "kind: "},
		"an unknown kind":  {&apiv1.SetOverrideRequest{Kind: 99, Name: "pg-0", Reason: "r"}, codes.InvalidArgument, "kind: "},
		"no slot's name":   {&apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, Name: "pg", Reason: "r"}, codes.InvalidArgument, "name: "},
		"no such slot":     {&apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_PROTECT, Name: "pg-7", Reason: "r"}, codes.NotFound, "pg-7"},
		"no such group":    {&apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_FREEZE, Name: "gp", Reason: "r"}, codes.NotFound, "gp"},
		"no group's name":  {&apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_FREEZE, Name: "../x", Reason: "r"}, codes.InvalidArgument, "name: "},
		"not to be from":   {&apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, Name: "pg-0", Reason: "r", From: []string{group.FromHealing}}, codes.InvalidArgument, "from: "},
		"from nothing":     {&apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE, Name: "pg-0", Reason: "r", From: []string{"rollouts"}}, codes.InvalidArgument, "from: \"rollouts\""},
		"from it twice":    {&apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE, Name: "pg-0", Reason: "r", From: []string{group.FromHealing, group.FromHealing}}, codes.InvalidArgument, "from: "},
		"no reason":        {&apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, Name: "pg-0"}, codes.InvalidArgument, "reason: "},
		"no time":          {&apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, Name: "pg-0", Reason: "r", For: durationpb.New(0)}, codes.InvalidArgument, "for: "},
		"too long a time":  {&apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, Name: "pg-0", Reason: "r", For: durationpb.New(10000 * time.Hour)}, codes.InvalidArgument, "for: "},
		"too long a cause": {&apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, Name: "pg-0", Reason: strings.Repeat("r", 501)}, codes.InvalidArgument, "reason: "},
	} {
		if _, err := a.SetOverride(ctx, c.req); status.Code(err) != c.want || !strings.Contains(message(err), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.SetOverride(as(t.Context(), a.workload), &apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, Name: "pg-0", Reason: "r"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a member's token: %v", err)
	}
}

// TestR135_ALeavingSlotIsOnlyRemoved: a request about such a slot would wait as long as the slot
// stays. It could cost a slot that is wanted again its disk.
func TestR135_ALeavingSlotIsOnlyRemoved(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	put(a, t, store.SlotKey("pg", "pg-7"), group.SlotRecord{Group: "pg", Slot: "pg-7", Ordinal: 7, InstanceID: boundInstance, VMUUID: "vm-7"})
	_, replace := a.ReplaceInstance(ctx, &apiv1.ReplaceInstanceRequest{Slot: "pg-7", Reason: "r"})
	_, restart := a.RestartInstance(ctx, &apiv1.RestartInstanceRequest{Slot: "pg-7", Reason: "r"})
	_, drain := a.SetOverride(ctx, &apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, Name: "pg-7", Reason: "r"})
	for name, err := range map[string]error{"slot: replace": replace, "slot: restart": restart, "name: drain": drain} {
		field, _, _ := strings.Cut(name, ":")
		if text := message(err); status.Code(err) != codes.FailedPrecondition || !strings.HasPrefix(text, field+": pg-7 is to be removed") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.SetOverride(ctx, &apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_PROTECT, Name: "pg-7", Reason: "r"}); err != nil {
		t.Errorf("its removal cannot be held: %v", err)
	}
}

// TestAPauseNeedsNoReasonAndIsListed: this holds also with a record below control/ whose name is no
// Slot.
func TestAPauseNeedsNoReasonAndIsListed(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	for _, scope := range []string{"nonsense", "rubbish", "trash"} {
		put(a, t, store.OverrideKey(store.OverrideProtect, scope), store.Override{Reason: "by hand"})
	}
	pause := apiv1.OverrideKind_OVERRIDE_KIND_PAUSE
	if out, err := a.SetOverride(ctx, &apiv1.SetOverrideRequest{Kind: pause, Name: "pg"}); err != nil || !out.GetChanged() {
		t.Fatalf("%v, %v", out, err)
	}
	list, err := a.ListOverrides(ctx, &apiv1.ListOverridesRequest{})
	if got := list.GetOverrides(); err != nil || len(got) != 1 || got[0].GetKind() != pause || got[0].GetName() != "pg" {
		t.Errorf("%v, %v", got, err)
	}
}
