package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

func withGates(t *testing.T) (*api, gateService) {
	t.Helper()
	a, _, _ := newAsked(t)
	s := spec(t)
	s.Gates = []group.Gate{
		{Name: "balancer", On: []string{group.GateOnStep}, Per: group.GatePerSlot},
		{Name: "network", On: []string{group.GateOnCreate, group.GateOnStep}},
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.ApplyGroup(as(t.Context(), operatorToken), &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: raw}); err != nil {
		t.Fatal(err)
	}
	return a, gateService{s: a.Server}
}

// TestR150_ASettingIsARecordOfItsGate: with the operator, the reason and the end, and the state in the
// list. A second setting replaces the first, and a setting that is taken back leaves the default.
func TestR150_ASettingIsARecordOfItsGate(t *testing.T) {
	a, g := withGates(t)
	ctx := as(t.Context(), operatorToken)
	state := func(gate, slot string) *apiv1.Gate {
		t.Helper()
		list, err := g.ListGates(ctx, &apiv1.ListGatesRequest{Group: "pg"})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list.GetGates() {
			if one.GetGate() == gate && one.GetSlot() == slot {
				return one
			}
		}
		t.Fatalf("no gate %s of %q in %v", gate, slot, list)
		return nil
	}
	if one := state("network", ""); one.GetState() != "closed" || one.GetSet() || one.GetPer() != "group" {
		t.Errorf("without a setting: %v", one)
	}
	open := &apiv1.SetGateRequest{Group: "pg", Gate: "network", State: "open", Reason: "the subnet is there", For: durationpb.New(time.Hour)}
	out, err := g.SetGate(ctx, open)
	if err != nil || !out.GetChanged() || out.GetGate().GetLeft().AsDuration() > time.Hour {
		t.Fatalf("%v, %v", out, err)
	}
	if one := state("network", ""); one.GetState() != "open" || !one.GetSet() || one.GetReason() != open.GetReason() || one.GetUntil() == nil || !strings.Contains(one.GetBy(), "cadre-operator") {
		t.Errorf("opened: %v", one)
	}
	open.For, open.State = nil, "closed"
	for _, changed := range []bool{true, false} {
		if out, err := g.SetGate(ctx, open); err != nil || out.GetChanged() != changed {
			t.Errorf("%v, %v, want changed %t", out, err, changed)
		}
	}
	got, _, err := store.Read[store.Override](ctx, a.cfg.Store, store.OverrideKey(store.OverrideGate, "pg/network"))
	if err != nil || got.State != "closed" || got.Ticket != "" || !got.Until.IsZero() {
		t.Errorf("record %+v, %v", got, err)
	}
	for _, changed := range []bool{true, false} {
		if out, err := g.ClearGate(ctx, &apiv1.ClearGateRequest{Group: "pg", Gate: "network"}); err != nil || out.GetChanged() != changed {
			t.Errorf("%v, %v, want changed %t", out, err, changed)
		}
	}
	if list, err := a.ListOverrides(ctx, &apiv1.ListOverridesRequest{}); err != nil || len(list.GetOverrides()) != 0 {
		t.Errorf("overrides %v, %v", list, err)
	}
	slot := &apiv1.SetGateRequest{Group: "pg", Gate: "balancer", Slot: "pg-0", State: "open", Ticket: "0123456789abcdef", Reason: "out"}
	if _, err := g.SetGate(ctx, slot); err != nil {
		t.Fatal(err)
	}
	if one := state("balancer", "pg-0"); one.GetState() != "closed" || !one.GetSet() {
		t.Errorf("a setting of another step: %v", one)
	}
}

// TestASettingThatOpensNothingIsRefused, with the field and the way out.
func TestASettingThatOpensNothingIsRefused(t *testing.T) {
	_, g := withGates(t)
	ctx := as(t.Context(), operatorToken)
	for want, edit := range map[string]func(r *apiv1.SetGateRequest){
		"group: \"PG\"":         func(r *apiv1.SetGateRequest) { r.Group = "PG" },
		"no such group: gp":     func(r *apiv1.SetGateRequest) { r.Group = "gp" },
		"gate: \"a/b\"":         func(r *apiv1.SetGateRequest) { r.Gate = "a/b" },
		"has no gate alarm":     func(r *apiv1.SetGateRequest) { r.Gate = "alarm" },
		"state: \"\"":           func(r *apiv1.SetGateRequest) { r.State = "" },
		"state: \"ajar\"":       func(r *apiv1.SetGateRequest) { r.State = "ajar" },
		"reason: is missing":    func(r *apiv1.SetGateRequest) { r.Reason = " " },
		"reason: at most":       func(r *apiv1.SetGateRequest) { r.Reason = strings.Repeat("x", 5000) },
		"for: 0s":               func(r *apiv1.SetGateRequest) { r.For = durationpb.New(0) },
		"for: 8808h0m0s":        func(r *apiv1.SetGateRequest) { r.For = durationpb.New(367 * 24 * time.Hour) },
		"slot: leave it out":    func(r *apiv1.SetGateRequest) { r.Slot = "pg-0" },
		"ticket: leave it out":  func(r *apiv1.SetGateRequest) { r.Ticket = "0123456789abcdef" },
		"slot: is missing":      func(r *apiv1.SetGateRequest) { r.Gate = "balancer" },
		"ticket: \"\" is no":    func(r *apiv1.SetGateRequest) { r.Gate, r.Slot = "balancer", "pg-0" },
		"ticket: \"xyz\" is no": func(r *apiv1.SetGateRequest) { r.Gate, r.Slot, r.Ticket = "balancer", "pg-0", "xyz" },
		"is a slot of group we": func(r *apiv1.SetGateRequest) { r.Gate, r.Slot = "balancer", "we-0" },
		"slot: \"pg\" is not a": func(r *apiv1.SetGateRequest) { r.Gate, r.Slot = "balancer", "pg" },
		"pg-77": func(r *apiv1.SetGateRequest) {
			r.Gate, r.Slot, r.State = "balancer", "pg-77", "closed"
		},
	} {
		req := &apiv1.SetGateRequest{Group: "pg", Gate: "network", State: "open", Reason: "r"}
		edit(req)
		_, err := g.SetGate(ctx, req)
		code := status.Code(err)
		if (code != codes.InvalidArgument && code != codes.NotFound) || !strings.Contains(message(err), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for name, req := range map[string]*apiv1.ClearGateRequest{"no such gate": {Group: "pg", Gate: "alarm"}, "no such group": {Group: "gp", Gate: "alarm"}} {
		if out, err := g.ClearGate(ctx, req); status.Code(err) != codes.NotFound || out.GetChanged() {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
	if _, err := g.SetGate(as(t.Context(), "00000000-0000-0000-0000-000000000000"), &apiv1.SetGateRequest{Group: "pg", Gate: "network", State: "open", Reason: "r"}); err == nil {
		t.Error("a foreign token opens a gate")
	}
}
