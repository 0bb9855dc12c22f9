package server

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

func withQueue(t *testing.T) (*api, queueService) {
	t.Helper()
	a, _, _ := newAsked(t)
	return a, queueService{s: a.Server}
}

// applyAfter applies a group that is after others.
func applyAfter(t *testing.T, a *api, name string, after ...string) error {
	t.Helper()
	s := spec(t)
	s.Name, s.After = name, after
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.ApplyGroup(as(t.Context(), operatorToken), &apiv1.ApplyGroupRequest{Group: name, SpecJson: raw})
	return err
}

// TestR98_LimitsAreARecordWithTheirAuthor: set, repeated, lowered and removed.
func TestR98_LimitsAreARecordWithTheirAuthor(t *testing.T) {
	_, q := withQueue(t)
	ctx := as(t.Context(), operatorToken)
	for want, req := range map[string]*apiv1.SetLimitsRequest{
		"set at least one":                 {Reason: "x"},
		"reason: is missing":               {Steps: 1},
		"steps: is -1: must be 1 to 1000":  {Steps: -1, Reason: "x"},
		"rollouts: is 1001: must be 1 to":  {Rollouts: 1001, Reason: "x"},
		"creations: is 2000: must be 1 to": {Creations: 2000, Rollouts: 1001, Reason: "x"},
		"creations: is -2: must be 1 to 1000, or left out for no limit; to stop all work: cadre freeze; reason: is missing": {Steps: 1, Creations: -2},
		"cadre limits clear; reason: is missing": {},
		"reason: at most":                        {Steps: 1, Reason: strings.Repeat("x", 4096)},
	} {
		if _, err := q.SetLimits(ctx, req); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", req, err, want)
		}
	}
	if got, err := q.GetLimits(ctx, &apiv1.GetLimitsRequest{}); err != nil || got.GetLimits() != nil {
		t.Fatalf("without limits: %v, %v", got, err)
	}
	for _, changed := range []bool{true, false} {
		out, err := q.SetLimits(ctx, &apiv1.SetLimitsRequest{Steps: 2, Creations: 4, Reason: "one host"})
		if err != nil || out.GetChanged() != changed {
			t.Errorf("%v, %v, want changed %t", out, err, changed)
		}
	}
	got, err := q.GetLimits(ctx, &apiv1.GetLimitsRequest{})
	if l := got.GetLimits(); err != nil || l.GetSteps() != 2 || l.GetRollouts() != 0 || l.GetCreations() != 4 || l.GetReason() != "one host" || !strings.Contains(l.GetBy(), "cadre-operator") {
		t.Errorf("%v, %v", got, err)
	}
	if out, err := q.SetLimits(ctx, &apiv1.SetLimitsRequest{Steps: 1, Reason: "calm"}); err != nil || !out.GetChanged() || out.GetLimits().GetCreations() != 0 {
		t.Errorf("lowered: %v, %v", out, err)
	}
	for _, changed := range []bool{true, false} {
		if out, err := q.ClearLimits(ctx, &apiv1.ClearLimitsRequest{Reason: "done"}); err != nil || out.GetChanged() != changed {
			t.Errorf("clear: %v, %v, want changed %t", out, err, changed)
		}
	}
}

// TestR98_TheQueueListsAllGroups: with the holds of each step.
func TestR98_TheQueueListsAllGroups(t *testing.T) {
	a, q := withQueue(t)
	ctx := as(t.Context(), operatorToken)
	if err := applyAfter(t, a, "app", "base", "missing"); err != nil {
		t.Fatal(err)
	}
	if err := applyAfter(t, a, "base"); err != nil {
		t.Fatal(err)
	}
	if _, err := q.SetLimits(ctx, &apiv1.SetLimitsRequest{Creations: 1, Reason: "one host"}); err != nil {
		t.Fatal(err)
	}
	list, err := q.ListQueue(ctx, &apiv1.ListQueueRequest{})
	if err != nil || len(list.GetEntries()) == 0 || list.GetLimits().GetCreations() != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	rank := map[string]int{"running": 0, "begins": 1, "waits": 2, "held": 3}
	last, held := 0, map[string]string{}
	for _, e := range list.GetEntries() {
		if rank[e.GetState()] < last {
			t.Errorf("%s of %s comes too late", e.GetState(), e.GetSlot())
		}
		last = rank[e.GetState()]
		for _, h := range e.GetHolds() {
			held[e.GetGroup()] += h.GetPredicate() + ": " + h.GetMessage() + "\n"
		}
	}
	if !strings.Contains(held["app"], "after_group: waits for group missing: there is no such group yet") || !strings.Contains(held["app"], "waits for group base") {
		t.Errorf("app is held by %q", held["app"])
	}
}

// TestR158_CyclesAreRefusedAcrossGroups: with the field and the path. A group that others follow is not deleted.
func TestR158_CyclesAreRefusedAcrossGroups(t *testing.T) {
	a, _ := withQueue(t)
	for _, one := range []struct {
		name  string
		after []string
		want  string
	}{
		{"base", nil, ""},
		{"mid", []string{"base"}, ""},
		{"app", []string{"base", "mid"}, ""},
		{"base", []string{"app"}, "after[0]: closes a cycle: base after app after base"},
		{"mid", []string{"app"}, "after[0]: closes a cycle: mid after app after mid"},
		{"app", []string{"app"}, "after[0]: \"app\" is this group"},
	} {
		switch err := applyAfter(t, a, one.name, one.after...); {
		case one.want == "" && err != nil:
			t.Fatalf("%s: %v", one.name, err)
		case one.want != "" && (status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), one.want)):
			t.Errorf("%s after %v: %v, want %q", one.name, one.after, err, one.want)
		}
	}
	ctx := as(t.Context(), operatorToken)
	remove := func(name string) error {
		_, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: name, KeepCvms: true, Reason: "over"})
		return err
	}
	if err := remove("base"); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "app, mid still follow base") {
		t.Errorf("the deletion of base: %v", err)
	}
	for _, name := range []string{"app", "mid", "base"} {
		if err := remove(name); err != nil {
			t.Errorf("the deletion of %s: %v", name, err)
		}
	}
}
