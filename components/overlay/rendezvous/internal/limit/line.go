package limit

import (
	"sync"
	"time"
)

// lineEvery is how often one kind of line may be written.
const lineEvery = time.Second

// Line bounds the lines of one kind that unauthenticated clients, or members that are refused,
// can cause in a log. The zero Line is ready and safe for concurrent use.
type Line struct {
	mu   sync.Mutex
	last time.Time
}

// Allow reports whether a line may be written now.
func (l *Line) Allow(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() && now.Sub(l.last) < lineEvery && !now.Before(l.last) {
		return false
	}
	l.last = now
	return true
}
