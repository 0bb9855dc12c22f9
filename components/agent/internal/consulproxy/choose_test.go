package consulproxy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cadre.dev/overlay"
)

func coordinators(up ...bool) []Coordinator {
	var out []Coordinator
	for i, u := range up {
		out = append(out, Coordinator{ID: coordinatorID(i), Up: u})
	}
	return out
}

func coordinatorID(n int) overlay.ID {
	return overlay.ID{Cluster: "test", Group: overlay.CoordinatorGroup, Slot: fmt.Sprintf("coordinator-%d", n)}
}

func TestMembersShareTheCoordinators(t *testing.T) {
	const members, servers = 3000, 3
	first, second := map[string]int{}, map[string]int{}
	for i := range members {
		got := Order(fmt.Sprintf("web-%d", i), coordinators(true, true, true), nil, time.Time{})
		if again := Order(fmt.Sprintf("web-%d", i), coordinators(true, true, true), nil, time.Time{}); !slices.Equal(got, again) {
			t.Fatalf("order of web-%d: %v, and then %v", i, got, again)
		}
		first[got[0].Slot]++
		second[got[0].Slot+" then "+got[1].Slot]++
	}
	for slot, n := range first {
		if n < members/servers*8/10 {
			t.Errorf("%s is the first choice of %d of %d", slot, n, members)
		}
	}
	if len(second) != servers*(servers-1) {
		t.Errorf("pairs of choices: %v, want each coordinator's members to be shared by the others when it is gone", second)
	}
}

func TestOrder(t *testing.T) {
	now := time.Unix(1000, 0)
	all := coordinators(true, true, true)
	preferred := Order("web-0", all, nil, now)
	for name, tc := range map[string]struct {
		all    []Coordinator
		failed map[overlay.ID]time.Time
		want   []overlay.ID
	}{
		"a failed coordinator is last":    {all, map[overlay.ID]time.Time{preferred[0]: now.Add(-time.Second)}, []overlay.ID{preferred[1], preferred[2], preferred[0]}},
		"the latest failure is last":      {all, map[overlay.ID]time.Time{preferred[0]: now.Add(-time.Second), preferred[1]: now.Add(-2 * time.Second), preferred[2]: now.Add(-3 * time.Second)}, []overlay.ID{preferred[2], preferred[1], preferred[0]}},
		"a failure is forgiven":           {all, map[overlay.ID]time.Time{preferred[0]: now.Add(-forgiveAfter)}, preferred},
		"none":                            {nil, nil, []overlay.ID{}},
		"without a Session in their turn": {coordinators(false, false, false), nil, preferred},
	} {
		if got := Order("web-0", tc.all, tc.failed, now); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
	for i := range all {
		some := coordinators(false, false, false)
		some[i].Up = true
		if got := Order("web-0", some, nil, now); got[0] != some[i].ID {
			t.Errorf("only %s has a Session: got %v", some[i].ID.Slot, got)
		}
	}
}
