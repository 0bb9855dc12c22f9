package view

import (
	"context"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Decisions are what was decided last about Boots that claim the Slot; empty when
// there are none or they cannot be read.
func (v *View) Decisions(ctx context.Context, slot string) policy.Decisions {
	for _, e := range v.decisions {
		if e.Key == store.DecisionsKey(slot) {
			got, _, err := store.ReadAll[policy.Decisions](ctx, moment{entries: []store.Entry{e}}, e.Key)
			if err == nil && len(got) == 1 {
				return got[0].Value
			}
		}
	}
	return policy.Decisions{}
}
