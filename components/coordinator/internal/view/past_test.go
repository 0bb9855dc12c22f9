package view_test

import (
	"fmt"
	"slices"
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestAnOperationThatBootedTheCVMCounts: an Operation that booted the CVM counts, however often the platform
// refused the later ones. Without it the Boot before would still be expected to report.
func TestAnOperationThatBootedTheCVMCounts(t *testing.T) {
	const slot = "pg-0"
	told := operation.Operation{ID: "told", Slot: slot, Phase: operation.Failed, Rollout: "before"}
	other := operation.Operation{ID: "other", Slot: slot, Phase: operation.Failed, Rollout: "before", Before: operation.Before{Follows: "older"}}
	older := operation.Operation{ID: "older", Slot: slot, Phase: operation.Failed, Rollout: "before"}
	ops := []operation.Operation{older, other, told}
	for n := range 8 {
		ops = append(ops, operation.Operation{ID: fmt.Sprint(n), Slot: slot, Phase: operation.Failed, Before: operation.Before{Follows: "told"}})
	}
	v := &view.View{Operations: map[string]view.Rec[operation.Operation]{}, Slots: map[string]view.Rec[group.SlotRecord]{slot: {}}}
	for n, op := range ops {
		v.Operations[op.ID] = view.Rec[operation.Operation]{Value: op, Index: uint64(n + 1)}
	}
	ids := func(list []*view.Rec[operation.Operation]) (out []string) {
		for _, o := range list {
			out = append(out, o.Value.ID)
		}
		return out
	}
	counts, others := v.Past(slot, "now")
	if got, want := ids(counts), []string{"7", "6", "5", "4", "3", "2", "1", "0", "told"}; !slices.Equal(got, want) {
		t.Errorf("%v count, want %v", got, want)
	}
	// An Operation that is followed only by Operations that do not count does not count either: the
	// history stays bounded.
	if got, want := ids(others), []string{"other", "older"}; !slices.Equal(got, want) {
		t.Errorf("%v do not count, want %v", got, want)
	}
}
