package provider

import (
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// A plan shows no hold for a request that the apply makes. It shows the slot's other holds, and
// other slots.
func TestAPlanShowsNoHoldForItsOwnRequest(t *testing.T) {
	hold := rollout.Hold{Predicate: rollout.HoldOpportunistic, Message: "updates are OPPORTUNISTIC"}
	budget := rollout.Hold{Predicate: rollout.HoldMaxUnavailable, Message: "web-2 is not available"}
	v := client.View{Plan: rollout.Plan{Actions: []rollout.Action{
		{Slot: "web-0", Kind: operation.Update, Holds: []rollout.Hold{hold}},
		{Slot: "web-1", Kind: operation.Update, Holds: []rollout.Hold{hold, budget}},
	}}}
	for slot, want := range map[string]string{"web-0": "now", "web-1": "held: max_unavailable: web-2 is not available"} {
		if text := updateText(asked(v, slot), group.InstanceStatus{Slot: slot}); !strings.HasSuffix(text, want) {
			t.Errorf("%s: %s", slot, text)
		}
	}
	if text := updateText(asked(v, "web-1"), group.InstanceStatus{Slot: "web-0"}); !strings.Contains(text, rollout.HoldOpportunistic) {
		t.Errorf("one that is not asked for: %s", text)
	}
}
