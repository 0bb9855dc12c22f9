package format

import (
	"slices"
	"testing"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

// A wait that begins while a stage bakes shows its reason.
func TestTheFirstViewHasTheMessage(t *testing.T) {
	web := group.InstanceStatus{Slot: "web-0", State: group.SlotAvailable, Health: "healthy"}
	v := client.View{Status: group.Status{Group: "web", RolloutState: "RUNNING", Replicas: 1, Available: 1, Instances: []group.InstanceStatus{web},
		Message: "UPDATE of web-0 waits: stage_baking: stage 1 of 2 bakes"}}
	want := []string{"web: RUNNING revision none, 0/1 updated, 1/1 available", "web-0: Available, healthy", "web: UPDATE of web-0 waits: stage_baking: stage 1 of 2 bakes"}
	if got := Changes(nil, v); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	v.Status.Instances = []group.InstanceStatus{{Slot: "web-0", State: group.SlotBooting, Health: "unknown", Reason: "waits for the new boot"}}
	v.Status.Message = "waits for web-0: Booting: waits for the new boot"
	if got := Changes(nil, v); !slices.Equal(got, []string{want[0], "web-0: Booting, unknown: waits for the new boot"}) {
		t.Errorf("%q", got)
	}
}

// The line of a slot is printed again only if it has changed.
func TestNoLineIsSaidTwice(t *testing.T) {
	view := func(role string) client.View {
		return client.View{Status: group.Status{Group: "web", Replicas: 1, Instances: []group.InstanceStatus{{Slot: "web-0", State: group.SlotBooting, Health: "unknown", Role: role}}}}
	}
	before := view("none")
	for role, want := range map[string][]string{"unknown": {}, "leader": {"web-0: Booting, unknown, leader"}} {
		if got := Changes(&before, view(role)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", role, got, want)
		}
	}
}
