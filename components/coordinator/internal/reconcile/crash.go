package reconcile

import (
	"context"
	"errors"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// ConditionReconciled is false while passes over a group end in a panic: nothing is decided for
// the group, and other groups go on.
const ConditionReconciled = "Reconciled"

// contained is run, whose panic is an error. What run recorded before stays, as after the death
// of a coordinator: each effect is recorded first, and the next pass reads back what became of it.
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
	// The status is the second thing that may panic, and then only the metric reports it.
	if err := p.cfg.Panics.Do("pass", func() error { return p.recordCrash(ctx, crash) }); err != nil && ctx.Err() == nil {
		p.log.Warn("the panic of a pass is not in the group's status", "id", crash.ID, "error", err)
	}
	return next{}, err
}

// recordCrash reports the panic in the status. It reads the status itself, since what the pass read may be half made.
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
