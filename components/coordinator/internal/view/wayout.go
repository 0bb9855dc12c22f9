package view

import (
	"context"

	"cadre.dev/store"
)

// readWayOut reads the operators' requests for cases that the planner cannot resolve. Each request
// removes or binds something. So an unreadable request has no effect, and neither has a request
// that names another group than its key.
func (v *View) readWayOut(ctx context.Context, at moment, errs *[]error) {
	v.Deletes = asked(ctx, at, store.DeletePrefix, errs, func(d store.DeleteGroup) string { return d.Group })
	v.DeleteDisks = asked(ctx, at, store.DeleteDisksPrefix, errs, func(d store.DeleteDisks) string { return d.Group })
	v.Adoptions = asked(ctx, at, store.AdoptPrefix, errs, func(a store.Adoption) string { return a.Group })
}
