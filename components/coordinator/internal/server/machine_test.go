package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// The answers have the machine of the bound instance, and the members of the group on it. The record of a
// replaced instance counts for nothing.
func TestTheAPIShowsTheMachineOfAnInstance(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	one := strings.Repeat("1", 64)
	for slot, instance := range map[string]string{"pg-1": "bound-1", "pg-2": "replaced"} {
		put(a, t, store.SlotKey("pg", slot), group.SlotRecord{Group: "pg", Slot: slot, Ordinal: int(slot[3] - '0')})
		put(a, t, store.SlotPolicyKey(slot), policy.SlotPolicy{Group: "pg", Slot: slot, InstanceID: "bound-" + slot[3:]})
		put(a, t, store.MachineKey(slot), policy.MachineRecord{Group: "pg", Slot: slot, InstanceID: instance, Machine: one, Since: time.Now()})
	}
	put(a, t, store.MachineKey("pg-0"), policy.MachineRecord{Group: "pg", Slot: "pg-0", InstanceID: boundInstance, Machine: one, Before: strings.Repeat("2", 64), Since: time.Now()})
	explained, err := a.ExplainAdmission(ctx, &apiv1.ExplainAdmissionRequest{Slot: "pg-0"})
	var e policy.Explanation
	if err != nil || json.Unmarshal(explained.GetExplanationJson(), &e) != nil {
		t.Fatal(err)
	}
	if e.Machine != one || e.MachineBefore == "" || e.MachineSince.IsZero() || !slices.Equal(e.SharesMachine, []string{"pg-1"}) {
		t.Errorf("explained %+v", e.AdmissionStatus)
	}
	described, err := a.DescribeInstance(ctx, &apiv1.DescribeInstanceRequest{Slot: "pg-0"})
	var d struct {
		BootID        string   `json:"boot_id"`
		Machine       string   `json:"machine"`
		SharesMachine []string `json:"shares_machine"`
	}
	if err != nil || json.Unmarshal(described.GetAdmissionsJson()[0], &d) != nil || d.Machine != one || !slices.Equal(d.SharesMachine, []string{"pg-1"}) || d.BootID != "boot" {
		t.Errorf("described %+v, %v", d, err)
	}
}
