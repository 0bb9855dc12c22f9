package view

import (
	"context"

	"cadre.dev/store"
)

// readWayOut reads what operators ask for when the planner cannot go on by itself. Each
// of these takes something away or binds somebody, so one that cannot be read, or names
// another group than its key, counts for nothing.
func (v *View) readWayOut(ctx context.Context, at moment, errs *[]error) {
	v.Deletes = collect(ctx, at, store.DeletePrefix, errs, func(d store.DeleteGroup) string { return d.Group })
	v.DeleteDisks = collect(ctx, at, store.DeleteDisksPrefix, errs, func(d store.DeleteDisks) string { return d.Group })
	v.Adoptions = collect(ctx, at, store.AdoptPrefix, errs, func(a store.Adoption) string { return a.Group })
}
