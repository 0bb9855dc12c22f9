package view

import (
	"context"
	"errors"
	"strings"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Decisions are what was decided last about Boots that claim the Slot; empty when
// there are none or they cannot be read. Only in a View that was read as a whole.
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

// ReadDecisions is Decisions of what the records say now.
func ReadDecisions(ctx context.Context, s store.Store, slot string) (policy.Decisions, error) {
	d, _, err := store.Read[policy.Decisions](ctx, s, store.DecisionsKey(slot))
	if errors.Is(err, store.ErrNotFound) || len(store.RecordErrors(err)) > 0 {
		return policy.Decisions{}, nil
	}
	return d, err
}

// Decided are the Slots, also those that are gone, about which decisions are recorded,
// with the index of the record.
func (v *View) Decided() map[string]uint64 {
	out := make(map[string]uint64, len(v.decisions))
	for _, e := range v.decisions {
		out[strings.TrimPrefix(e.Key, store.DecisionsPrefix)] = e.Index
	}
	return out
}
