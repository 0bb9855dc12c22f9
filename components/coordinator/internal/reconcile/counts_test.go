package reconcile

import (
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/operation"
)

// TestAWriteForAClockKeepsTheOrderOfOperations: the ended Operation that is written last is a Slot's
// newest. Writing an Operation with a successor would hide how the successor ended, and a cancelled
// step would never be retried.
func TestAWriteForAClockKeepsTheOrderOfOperations(t *testing.T) {
	op := func(id string, phase operation.Phase, calls int) operation.Operation {
		return operation.Operation{ID: id, Group: "pg", Slot: "pg-0", Phase: phase, Call: operation.Call{Number: calls}}
	}
	for name, c := range map[string]struct {
		ops    []operation.Operation // in the order in which they were written
		counts string
	}{
		"re-targeted, and the next is open":    {[]operation.Operation{op("a", operation.Superseded, 1), op("b", operation.Draining, 0)}, "ab"},
		"re-targeted, and the next ended":      {[]operation.Operation{op("a", operation.Superseded, 1), op("b", operation.Aborted, 0)}, ""},
		"both, and a third is open":            {[]operation.Operation{op("a", operation.Superseded, 1), op("b", operation.Aborted, 0), op("c", operation.Acting, 1)}, "c"},
		"re-targeted twice":                    {[]operation.Operation{op("a", operation.Superseded, 1), op("b", operation.Superseded, 1)}, "b"},
		"re-targeted before anything was told": {[]operation.Operation{op("a", operation.Superseded, 0)}, ""},
	} {
		v := &view.View{Operations: map[string]view.Rec[operation.Operation]{}}
		for n, one := range c.ops {
			v.Operations[one.ID] = view.Rec[operation.Operation]{Value: one, Index: uint64(n + 1)}
		}
		got := ""
		for _, one := range c.ops {
			if (&pass{view: v}).counts(one) {
				got += one.ID
			}
		}
		if got != c.counts {
			t.Errorf("%s: %q count, want %q", name, got, c.counts)
		}
	}
}
