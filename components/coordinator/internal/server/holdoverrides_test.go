package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

const holdKind = apiv1.OverrideKind_OVERRIDE_KIND_HOLD

// TestR141_AnOverrideOfAHoldIsARecordWithItsRollout: it is listed until the rollout is over, its end is
// bounded, and it can be cleared.
func TestR141_AnOverrideOfAHoldIsARecordWithItsRollout(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	put(a, t, store.RolloutKey("pg-1"), operation.Rollout{ID: "pg-1", Group: "pg", State: operation.FailedState})
	name := "pg/" + rollout.HoldStepDelay
	out, err := a.SetOverride(ctx, &apiv1.SetOverrideRequest{Kind: holdKind, Name: name, For: durationpb.New(time.Hour), Reason: "the fix is urgent"})
	if err != nil || !out.GetChanged() || out.GetOverride().GetName() != name {
		t.Fatalf("%v, %v", out, err)
	}
	got, _, err := store.Read[store.Override](t.Context(), a.cfg.Store, store.OverrideKey(store.OverrideHold, name))
	if err != nil || got.Reason != "the fix is urgent" || !strings.Contains(got.By, "cadre-operator") || got.Until.Sub(got.At) != time.Hour || got.Rollout != "pg-1" {
		t.Errorf("%+v, %v", got, err)
	}
	list, err := a.ListOverrides(ctx, &apiv1.ListOverridesRequest{Group: "pg"})
	if err != nil || len(list.GetOverrides()) != 1 || list.GetOverrides()[0].GetRollout() != "pg-1" || list.GetOverrides()[0].GetKind() != holdKind || list.GetOverrides()[0].GetName() != name {
		t.Errorf("%v, %v", list, err)
	}
	put(a, t, store.RolloutKey("pg-1"), operation.Rollout{ID: "pg-1", Group: "pg", State: operation.Complete})
	if list, err := a.ListOverrides(ctx, &apiv1.ListOverridesRequest{Group: "pg"}); err != nil || len(list.GetOverrides()) != 0 {
		t.Errorf("after the rollout: %v, %v", list, err)
	}
	for _, changed := range []bool{true, false} {
		if out, err := a.ClearOverride(ctx, &apiv1.ClearOverrideRequest{Kind: holdKind, Name: name}); err != nil || out.GetChanged() != changed {
			t.Errorf("%v, %v, want changed %v", out, err, changed)
		}
	}
}

// TestR142_AllProblemsOfAnOverrideAreInOneAnswer, and nothing is written.
func TestR142_AllProblemsOfAnOverrideAreInOneAnswer(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	for name, c := range map[string]struct {
		req  *apiv1.SetOverrideRequest
		code codes.Code
		want []string
	}{
		"everything": {&apiv1.SetOverrideRequest{Kind: holdKind, Name: "pg/" + rollout.HoldNotApproved, For: durationpb.New(48 * time.Hour), From: []string{"rollout"}},
			codes.InvalidArgument, []string{"hold: not_approved cannot be overridden: it is a decision of admission", "reason: ", "for: ", "from: "}},
		"unknown": {&apiv1.SetOverrideRequest{Kind: holdKind, Name: "pg/Nonsense", For: durationpb.New(time.Hour), Reason: "r"}, codes.InvalidArgument, []string{"is no hold", "step_delay"}},
		"no hold": {&apiv1.SetOverrideRequest{Kind: holdKind, Name: "pg", Reason: "r"}, codes.InvalidArgument, []string{"hold: ", "for: is missing"}},
		"no such group": {&apiv1.SetOverrideRequest{Kind: holdKind, Name: "gp/" + rollout.HoldBackoff, For: durationpb.New(time.Hour), Reason: "r"},
			codes.NotFound, []string{"no such group"}},
		"unconfirmed": {&apiv1.SetOverrideRequest{Kind: holdKind, Name: "pg/" + rollout.HoldMayDisrupt, For: durationpb.New(time.Hour), Reason: "r", Confirm: "yes"},
			codes.InvalidArgument, []string{"confirm: ", "the group is pg"}},
	} {
		_, err := a.SetOverride(ctx, c.req)
		if status.Code(err) != c.code {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, text := range c.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q is missing in %v", name, text, err)
			}
		}
	}
	if entries, _, err := a.cfg.Store.List(t.Context(), store.OverrideHold.Prefix()); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
