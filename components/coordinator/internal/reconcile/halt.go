package reconcile

import (
	"context"
	"errors"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// halt notes the outcome of the last try to take the Lease, or of the last look at the
// records. Without a Term or records that can be gone on from nobody leads or plans, and
// that ends by an operator's hand alone.
func (r *Reconciler) halt(err error) {
	text := ""
	if errors.Is(err, store.ErrTermRegression) || errors.Is(err, store.ErrStateRegression) || errors.Is(err, store.ErrTermExhausted) {
		text = err.Error()
	}
	r.mu.Lock()
	before := r.halted
	r.halted = text
	r.mu.Unlock()
	switch {
	case text != "" && text != before:
		r.log.Error("halted: nothing is planned until an operator recovers the cluster", "code", policy.CodeEpochRegression, "error", text)
	case text == "" && before != "":
		r.log.Info("halt is over", "error", err)
	}
}

// Halted is why this coordinator cannot lead or plan until an operator does something, with
// what to do; "" while it can.
func (r *Reconciler) Halted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.halted
}

// untilRaised ends the leading when an operator raised the Term to this Lease's or above:
// whoever takes the Lease next goes on from there.
func (r *Reconciler) untilRaised(ctx context.Context, lease store.Lease, stop func()) {
	for {
		v, changed := r.cfg.Views.Latest()
		if v != nil && v.Recovery.Term >= lease.Term() {
			r.log.Warn("an operator recovered the cluster; the lease is given up for a term above the raised one", "term", lease.Term(), "raised", v.Recovery.Term, "state", v.Recovery.State, "by", v.Recovery.By, "reason", v.Recovery.Reason)
			stop()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
