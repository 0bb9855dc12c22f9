package report

import (
	"sync"
	"time"
)

// unknownGrace is how long an unknown may last within a healthy streak: one timed-out probe is no
// proof of bad health, several are.
const unknownGrace = 3 * time.Second

type verdict int

const (
	unknown verdict = iota
	healthy
	unhealthy
)

// streak measures how long everything has been healthy without a break, on the
// monotonic clock. Safe for concurrent use.
type streak struct {
	mu           sync.Mutex
	since        time.Time // guarded by mu; zero: not healthy
	unknownSince time.Time // guarded by mu; zero: known
}

// add takes one verdict and returns the streak's length so far.
func (s *streak) add(v verdict, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch v {
	case healthy:
		s.unknownSince = time.Time{}
		if s.since.IsZero() {
			s.since = now
		}
	case unhealthy:
		s.since, s.unknownSince = time.Time{}, time.Time{}
	case unknown:
		if s.unknownSince.IsZero() {
			s.unknownSince = now
		}
		if now.Sub(s.unknownSince) > unknownGrace {
			s.since = time.Time{}
		}
	}
	if s.since.IsZero() {
		return 0
	}
	return now.Sub(s.since)
}
