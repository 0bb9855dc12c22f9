package observe

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
)

// TestBootsOfOtherGroupsAreToldWhereOneFailed, and to nobody else: they are looked for in the
// records of all groups.
func TestBootsOfOtherGroupsAreToldWhereOneFailed(t *testing.T) {
	now := time.Now()
	v := &view.View{
		Slots: map[string]view.Rec[group.SlotRecord]{}, Operations: map[string]view.Rec[operation.Operation]{}, Admissions: map[string]view.Rec[policy.Admission]{},
		Instances: map[string]view.Rec[group.InstanceStatus]{},
	}
	failed := func(groupName, slot string, ago time.Duration) {
		v.Slots[slot] = view.Rec[group.SlotRecord]{Value: group.SlotRecord{Group: groupName, Slot: slot}}
		v.Operations[slot] = view.Rec[operation.Operation]{Value: operation.Operation{
			ID: slot, Group: groupName, Slot: slot, Kind: operation.Restart, Actor: operation.ActorHealing, Phase: operation.Failed, Failure: operation.Failure{Cause: operation.CauseBootError, Signature: "no keys"}, Times: operation.Times{Ended: now.Add(-ago)},
		}}
	}
	admitted := func(slot string, ago time.Duration) {
		v.Admissions[slot] = view.Rec[policy.Admission]{Value: policy.Admission{Slot: slot, AdmittedAt: now.Add(-ago)}}
	}
	failed("web", "web-0", time.Minute)
	failed("web", "web-1", time.Hour)
	failed("web", "web-2", time.Minute)
	admitted("web-2", time.Second)
	failed("web", "web-3", time.Minute)
	v.Instances["web-3"] = view.Rec[group.InstanceStatus]{Value: group.InstanceStatus{State: "Available"}}
	v.Slots["db-0"] = view.Rec[group.SlotRecord]{Value: group.SlotRecord{Group: "db", Slot: "db-0"}}
	names := func(boots []rollout.Boot) (out []string) {
		for _, b := range boots {
			out = append(out, b.Slot)
		}
		slices.Sort(out)
		return out
	}
	if got := elsewhere(v, "db", nil, now); got != nil {
		t.Errorf("no boot of db failed, and it is told of %v", got)
	}
	failed("db", "db-0", 2*time.Minute)
	if got := elsewhere(v, "db", nil, now); !slices.Equal(names(got), []string{"web-0"}) || got[0].Way != "no keys" || !got[0].At.Equal(now.Add(-time.Minute)) {
		t.Errorf("told of %+v", got)
	}
	admitted("db-0", time.Second)
	cause := &group.SharedCause{Slots: []string{"db-0", "web-2"}}
	got := elsewhere(v, "db", cause, now)
	if !slices.Equal(names(got), []string{"web-0", "web-2"}) {
		t.Errorf("told of %+v", got)
	}
	for _, b := range got {
		if b.Slot == "web-2" && (b.Way != "" || !b.AdmittedAt.Equal(now.Add(-time.Second))) {
			t.Errorf("%+v", b)
		}
	}
	cause.Ended = now
	if got := elsewhere(v, "db", cause, now); got != nil {
		t.Errorf("the cause is over, and it is told of %v", got)
	}
}
