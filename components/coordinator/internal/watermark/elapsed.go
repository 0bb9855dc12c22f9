package watermark

import (
	"time"

	"cadre.dev/store"
)

// clockSet is by how much a wall clock and elapsed time part before the clock counts as set.
const clockSet = 2 * time.Second

// Elapsed is the time that passed for the coordinators, in milliseconds, given what is recorded
// of it. Each coordinator counts on by itself from the highest that it read, so that a takeover
// loses nothing where the successor was running, and no clock of a machine can move it.
func (r *Ratchet) Elapsed(recorded uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if least := time.Duration(min(recorded, store.MaxElapsed)) * time.Millisecond; r.passedLocked() < least {
		r.passed, r.passedAt = least, time.Now()
	}
	return min(uint64(r.passedLocked()/time.Millisecond), store.MaxElapsed)
}

func (r *Ratchet) passedLocked() time.Duration { return r.passed + time.Since(r.passedAt) }

// Zero is when, by this coordinator's clock, no time had elapsed yet. It stays what it was until
// that clock is set, or more was recorded as elapsed.
func (r *Ratchet) Zero() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if zero := r.now().Round(0).Add(-r.passedLocked()); zero.Sub(r.zero).Abs() > clockSet {
		r.zero = zero
	}
	return r.zero
}
