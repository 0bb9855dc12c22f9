package view

import (
	"context"
	"errors"
	"strings"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Decisions returns the latest decisions about Boots that claim the Slot. The result is empty when
// there are none or they cannot be read. Only a View of all records has decisions.
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

// ReadDecisions is Decisions with a fresh read of the store.
func ReadDecisions(ctx context.Context, s store.Store, slot string) (policy.Decisions, error) {
	d, _, err := store.Read[policy.Decisions](ctx, s, store.DecisionsKey(slot))
	if errors.Is(err, store.ErrNotFound) || len(store.RecordErrors(err)) > 0 {
		return policy.Decisions{}, nil
	}
	return d, err
}

// Decided maps each Slot with recorded decisions to the index of the record, including removed
// Slots.
func (v *View) Decided() map[string]uint64 {
	out := make(map[string]uint64, len(v.decisions))
	for _, e := range v.decisions {
		out[strings.TrimPrefix(e.Key, store.DecisionsPrefix)] = e.Index
	}
	return out
}
