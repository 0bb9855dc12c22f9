package storetest

import (
	"sync"
	"time"

	"cadre.dev/store/internal/leasing"
)

// Clock is the time source of a Memory.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine after d; stop cancels it.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

var (
	_ Clock         = leasing.System{}
	_ Clock         = (*ManualClock)(nil)
	_ leasing.Clock = Clock(nil)
)

// ManualClock moves only with Advance. Safe for concurrent use.
type ManualClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*manualTimer]struct{}
}

type manualTimer struct {
	at time.Time
	f  func()
}

// NewManualClock starts at a fixed time.
func NewManualClock() *ManualClock {
	return &ManualClock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), timers: make(map[*manualTimer]struct{})}
}

// Now returns the clock's time.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc calls f when Advance has moved the clock by d.
func (c *ManualClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	timer := &manualTimer{at: c.now.Add(d), f: f}
	if d <= 0 {
		go f()
		return func() bool { return false }
	}
	c.timers[timer] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, pending := c.timers[timer]
		delete(c.timers, timer)
		return pending
	}
}

// Advance moves the clock and starts the due timers, each in its own goroutine. It does not wait
// for them.
func (c *ManualClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for timer := range c.timers {
		if !timer.at.After(c.now) {
			delete(c.timers, timer)
			go timer.f()
		}
	}
}
