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
	op := func(id string, phase operation.Phase, moved string) operation.Operation {
		return operation.Operation{ID: id, Group: "pg", Slot: "pg-0", Phase: phase, Before: operation.Before{PendingBoot: operation.PendingBoot{To: moved}}}
	}
	for name, c := range map[string]struct {
		ops    []operation.Operation // in the order in which they were written
		counts string
	}{
		"began with a moved CVM, and the next is open": {[]operation.Operation{op("a", operation.Aborted, "r2"), op("b", operation.Draining, "r2")}, "ab"},
		"began with a moved CVM, and the next ended":   {[]operation.Operation{op("a", operation.Aborted, "r2"), op("b", operation.Aborted, "")}, ""},
		"both, and a third is open":                    {[]operation.Operation{op("a", operation.Aborted, "r2"), op("b", operation.Aborted, ""), op("c", operation.Acting, "")}, "c"},
		"two began with a moved CVM":                   {[]operation.Operation{op("a", operation.Aborted, "r2"), op("b", operation.Aborted, "r2")}, "b"},
		"began with a CVM that nothing moved":          {[]operation.Operation{op("a", operation.Aborted, "")}, ""},
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
