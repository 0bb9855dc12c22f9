package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// StandsDown is how long a coordinator that stepped down leaves the Lease to the others. They watch
// the Lease and take it within a second.
const StandsDown = 15 * time.Second

// leadership is the time as leader under one Lease, of one Term.
type leadership struct {
	term uint64
	// stop ends the work under the Lease; released is closed once the Lease was given up.
	stop     func()
	released chan struct{}
}

// leads makes StepDown end this leadership. The caller calls ended once the Lease was given up.
func (r *Reconciler) leads(term uint64, stop func()) (ended func()) {
	l := &leadership{term: term, stop: stop, released: make(chan struct{})}
	r.mu.Lock()
	r.leading = l
	r.mu.Unlock()
	return sync.OnceFunc(func() {
		r.mu.Lock()
		r.leading = nil
		r.mu.Unlock()
		close(l.released)
	})
}

// StepDown gives the Lease up and leaves it to the other coordinators for StandsDown, or until
// another coordinator holds it. It returns once the Lease was given up, and false if this
// coordinator did not lead. The error says that ctx ended first.
func (r *Reconciler) StepDown(ctx context.Context) (bool, error) {
	r.mu.Lock()
	l := r.leading
	if l != nil {
		r.steppedDown, r.standsDown = l.term, time.Now().Add(StandsDown)
	}
	r.mu.Unlock()
	if l == nil {
		return false, nil
	}
	l.stop()
	select {
	case <-l.released:
		return true, nil
	case <-ctx.Done():
		return false, fmt.Errorf("the lease is not given up yet: %w", context.Cause(ctx))
	}
}

// leaveToOthers waits while this coordinator stands down.
func (r *Reconciler) leaveToOthers(ctx context.Context) {
	r.mu.Lock()
	left, term := time.Until(r.standsDown), r.steppedDown
	r.standsDown = time.Time{}
	r.mu.Unlock()
	if left <= 0 {
		return
	}
	over := time.NewTimer(left)
	defer over.Stop()
	for {
		// A Lease that was given up still has its record. Another leader has a higher Term.
		v, changed := r.cfg.Views.Latest()
		if v != nil && v.Leader != r.cfg.Slot && v.Term > term {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-over.C:
			return
		case <-changed:
		}
	}
}
