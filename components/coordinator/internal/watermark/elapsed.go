package watermark

import (
	"time"

	"cadre.dev/store"
)

// clockSet is the difference between wall clock and elapsed time from which the clock counts as
// set.
const clockSet = 2 * time.Second

// Elapsed returns the coordinators' elapsed time in milliseconds, given the recorded one. Each
// coordinator counts on its own from the highest value that it read. So a takeover loses no time if
// the successor was running, and a change of a machine's clock has no effect.
func (r *Watermark) Elapsed(recorded uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if least := time.Duration(min(recorded, store.MaxElapsed)) * time.Millisecond; r.passedLocked() < least {
		r.passed, r.passedAt = least, time.Now()
	}
	return min(uint64(r.passedLocked()/time.Millisecond), store.MaxElapsed)
}

func (r *Watermark) passedLocked() time.Duration { return r.passed + time.Since(r.passedAt) }

// Zero returns the moment of elapsed time 0 by this coordinator's clock. It is stable until that
// clock is set, or until a higher elapsed time is recorded.
func (r *Watermark) Zero() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if zero := r.now().Round(0).Add(-r.passedLocked()); zero.Sub(r.zero).Abs() > clockSet {
		r.zero = zero
	}
	return r.zero
}
