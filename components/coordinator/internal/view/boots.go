package view

import (
	"context"

	"cadre.dev/store"
)

// Boot is the lease of a Slot's Boot.
type Boot struct {
	store.BootLease
	// Session holds the lease; "" when it has ended and the Slot is free.
	Session string
	Index   uint64
}

// Leased reports whether a Boot holds the lease.
func (b Boot) Leased() bool { return b.Session != "" }

// LeasedBy reports whether the Boot bootID holds the lease.
func (b Boot) LeasedBy(bootID string) bool { return b.Leased() && b.BootID == bootID }

// EndedBy reports whether the lease is free because the Boot bootID said farewell or was evicted.
// Such a Boot gets no lease again.
func (b Boot) EndedBy(bootID string) bool {
	return !b.Leased() && b.BootID == bootID && bootID != "" && b.State == store.LeaseEnded
}

func (v *View) readBoots(ctx context.Context, at moment, errs *[]error) {
	sessions := map[string]string{}
	for _, e := range at.entries {
		sessions[e.Key] = e.Session
	}
	values := collect(ctx, at, store.BootLeasePrefix, errs, func(b store.BootLease) string { return b.Slot })
	v.Boots = make(map[string]Boot, len(values))
	for slot, rec := range values {
		v.Boots[slot] = Boot{BootLease: rec.Value, Session: sessions[store.BootLeaseKey(slot)], Index: rec.Index}
	}
}
