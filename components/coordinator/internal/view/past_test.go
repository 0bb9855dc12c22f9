package view_test

import (
	"fmt"
	"slices"
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestTheNewestOperationsOfASlotCount: older Operations are hidden, and the history stays bounded.
func TestTheNewestOperationsOfASlotCount(t *testing.T) {
	const slot = "pg-0"
	v := &view.View{Operations: map[string]view.Rec[operation.Operation]{}, Slots: map[string]view.Rec[group.SlotRecord]{slot: {}}}
	for n := range 10 {
		op := operation.Operation{ID: fmt.Sprint(n), Slot: slot, Phase: operation.Failed, Rollout: "before"}
		v.Operations[op.ID] = view.Rec[operation.Operation]{Value: op, Index: uint64(n + 1)}
	}
	ids := func(list []*view.Rec[operation.Operation]) (out []string) {
		for _, o := range list {
			out = append(out, o.Value.ID)
		}
		return out
	}
	counts, others := v.Past(slot, "now")
	if got, want := ids(counts), []string{"9", "8", "7", "6", "5", "4", "3", "2"}; !slices.Equal(got, want) {
		t.Errorf("%v count, want %v", got, want)
	}
	if got, want := ids(others), []string{"1", "0"}; !slices.Equal(got, want) {
		t.Errorf("%v do not count, want %v", got, want)
	}
}
