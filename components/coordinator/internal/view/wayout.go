package view

import (
	"context"

	"cadre.dev/store"
)

// readWayOut reads the operators' requests for cases that the planner cannot resolve. Each request
// removes or binds something, so an unreadable one, or one that names another group than its key,
// has no effect.
func (v *View) readWayOut(ctx context.Context, at moment, errs *[]error) {
	v.Deletes = collect(ctx, at, store.DeletePrefix, errs, func(d store.DeleteGroup) string { return d.Group })
	v.DeleteDisks = collect(ctx, at, store.DeleteDisksPrefix, errs, func(d store.DeleteDisks) string { return d.Group })
	v.Adoptions = collect(ctx, at, store.AdoptPrefix, errs, func(a store.Adoption) string { return a.Group })
}
