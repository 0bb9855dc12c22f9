package reconcile

import (
	"context"
	"errors"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// ConditionReconciled is false while passes over a group end in a panic. Nothing is decided for the
// group; other groups go on.
const ConditionReconciled = "Reconciled"

// contained runs the pass and converts a panic into an error. The writes of run stay, as after the
// death of a coordinator: each effect is recorded first, and the next pass reads its outcome back.
func (p *pass) contained(ctx context.Context) (next, error) {
	var out next
	err := p.cfg.Panics.Do("pass", func() (err error) {
		out, err = p.run(ctx)
		return err
	})
	crash, is := errors.AsType[*contain.Error](err)
	if !is || ctx.Err() != nil {
		return out, err
	}
	// Writing the status may panic as well; then only the metric reports the panic.
	if err := p.cfg.Panics.Do("pass", func() error { return p.recordCrash(ctx, crash) }); err != nil && ctx.Err() == nil {
		p.log.Warn("the panic of a pass is not in the group's status", "id", crash.ID, "error", err)
	}
	return next{}, err
}

// recordCrash reports the panic in the status. It reads the status again, since the panic may have
// left the pass's own view incomplete.
func (p *pass) recordCrash(ctx context.Context, crash *contain.Error) error {
	status, index, err := store.Read[group.Status](ctx, p.cfg.Store, store.GroupStatusKey(p.name))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_, spec, err := store.ReadRaw(ctx, p.cfg.Store, store.GroupSpecKey(p.name))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	report := &pass{Reconciler: p.Reconciler, log: p.log, lease: p.lease, name: p.name, now: p.cfg.Now().UTC(), view: &view.View{
		Statuses: map[string]view.Rec[group.Status]{p.name: {Value: status, Index: index}},
		Specs:    map[string]view.Spec{p.name: {Index: spec}},
	}}
	message := "nothing is decided for this group: " + crash.Error()
	return report.recordProblem(ctx, group.Condition{Type: ConditionReconciled, Reason: "INTERNAL_ERROR", Message: message, Since: report.now}, message)
}
