package view

import (
	"context"

	"cadre.dev/core/queue"
	"cadre.dev/store"
)

// Limits are the limits for all groups together, as the operators' record says them.
type Limits struct {
	Value store.Limits
	// Set: the record exists. Unread says why it cannot be used.
	Set    bool
	Unread string
}

// Any reports whether a limit, or an unreadable record, holds work.
func (l Limits) Any() bool { return l.Unread != "" || l.Of() != (queue.Limits{}) }

// Of returns the limits.
func (l Limits) Of() queue.Limits {
	return queue.Limits{Steps: l.Value.Steps, Rollouts: l.Value.Rollouts, Creations: l.Value.Creations}
}

// readLimits reads the limits. An unreadable record holds all limited work, since the wanted limits are unknown.
func (v *View) readLimits(ctx context.Context, at moment, errs *[]error) {
	var unread []error
	rec, ok := keyed[store.Limits](ctx, at, store.LimitsKey(), &unread)[store.LimitsKey()]
	v.Limits = Limits{Set: ok}
	err := rec.Value.Check()
	if len(unread) > 0 {
		*errs = append(*errs, unread...)
		v.Limits.Set, err = true, unread[0]
	}
	if err != nil {
		v.Limits.Unread = err.Error()
		return
	}
	v.Limits.Value = rec.Value
}
