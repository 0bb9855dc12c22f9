package catalog_test

import (
	"testing"

	"cadre.dev/coordinator/internal/catalog"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// Routes lead to a member that is refreshed, in each phase in which one that is stopped gets
// nobody any more: its workload goes on, and it may be the only one that leads.
func TestARefreshLeavesItsMemberInTheRoutes(t *testing.T) {
	for phase, stopped := range map[operation.Phase]bool{
		operation.Recorded: false, operation.Draining: true, operation.Drained: true, operation.Acting: true, operation.Booting: false, operation.Joining: false,
	} {
		for _, refresh := range []bool{false, true} {
			v := &view.View{
				Admissions: map[string]view.Rec[policy.Admission]{slot: {Value: policy.Admission{Group: "pg", Slot: slot, BootID: "b1"}}},
				Slots:      map[string]view.Rec[group.SlotRecord]{slot: {Value: group.SlotRecord{Group: "pg", Slot: slot, VIP: vip}}},
				Operations: map[string]view.Rec[operation.Operation]{"op": {Value: operation.Operation{ID: "op", Slot: slot, Kind: operation.Update, Phase: phase, Refresh: refresh}}},
			}
			m, ok := catalog.MemberOf(v, slot)
			if !ok || m.Draining != (stopped && !refresh) {
				t.Errorf("%s, refresh %t: draining %t, %t", phase, refresh, m.Draining, ok)
			}
		}
	}
}

// Routes lead to nobody whose service is restarted, though its Boot stays and may say, for a
// moment, that it serves.
func TestRoutesDoNotLeadToAServiceThatIsRestarted(t *testing.T) {
	for phase, stopped := range map[operation.Phase]bool{
		operation.Recorded: false, operation.Draining: true, operation.Drained: true, operation.Booting: true, operation.Joining: false, operation.Settling: false,
	} {
		v := &view.View{
			Admissions: map[string]view.Rec[policy.Admission]{slot: {Value: policy.Admission{Group: "pg", Slot: slot, BootID: "b1"}}},
			Slots:      map[string]view.Rec[group.SlotRecord]{slot: {Value: group.SlotRecord{Group: "pg", Slot: slot, VIP: vip}}},
			Operations: map[string]view.Rec[operation.Operation]{"op": {Value: operation.Operation{ID: "op", Slot: slot, Kind: operation.Restart, Service: "db", Phase: phase}}},
		}
		if m, ok := catalog.MemberOf(v, slot); !ok || m.Draining != stopped {
			t.Errorf("%s: draining %t, %t", phase, m.Draining, ok)
		}
	}
}
