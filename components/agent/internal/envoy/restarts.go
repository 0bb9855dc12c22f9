package envoy

import "time"

const (
	// pauseFirst and pauseMost bound the wait before an Envoy is started again.
	pauseFirst = 100 * time.Millisecond
	pauseMost  = 10 * time.Second
	// steady is how long an Envoy must have been live before the waits start again at the first
	// one.
	steady = 10 * time.Second
)

// restarts counts failures in a row.
type restarts struct{ failures int }

// after returns the wait after a failed Envoy, or after an Envoy that was live for that long.
func (r restarts) after(live time.Duration) (restarts, time.Duration) {
	if live >= steady {
		r.failures = 0
	}
	r.failures++
	return r, min(pauseFirst<<min(r.failures-1, 16), pauseMost)
}
