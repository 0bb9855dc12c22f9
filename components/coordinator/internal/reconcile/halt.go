package reconcile

import (
	"context"
	"errors"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// halt records the outcome of the last attempt to take the Lease, or of the last read of the
// records. Without a usable Term and records no coordinator leads or plans. Only an operator ends
// that state.
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

// Halted is why this coordinator cannot lead or plan until an operator acts, with the way out. It
// is "" otherwise.
func (r *Reconciler) Halted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.halted
}

// untilRaised ends this leadership when an operator raised the Term to this Lease's Term or above.
// The next holder of the Lease continues from the raised Term.
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
