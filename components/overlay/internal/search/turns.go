// This file decides how many searches run at once, in which order, and how far apart the
// searches of one Link are.

package search

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turns lets a bounded number of searches of a node run at once. The longest waiting
// search is next. An urgent search counts as having waited urgentLead longer, so that
// every search gets its turn. Safe for concurrent use.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []*waiter
}

// waiter is a search without a place yet.
type waiter struct {
	since  time.Time
	urgent func() bool
	ready  chan struct{} // closed when it has a place
}

// urgentLead is how much of a lead an urgent search has over others.
const urgentLead = 30 * time.Second

func newTurns(places int) *turns { return &turns{free: places} }

// take waits for a place; give returns the place. It fails only if ctx ends, with ctx's cause.
// urgent is called again whenever a place is free, since traffic may have come meanwhile; it
// must not block.
func (t *turns) take(ctx context.Context, urgent func() bool) error {
	w := &waiter{since: time.Now(), urgent: urgent, ready: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.nextLocked()
	t.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.Index(t.waiting, w); at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
	} else {
		t.free++ // it came just now
		t.nextLocked()
	}
	return context.Cause(ctx)
}

// give gives a place back.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.nextLocked()
}

func (t *turns) nextLocked() {
	for t.free > 0 && len(t.waiting) > 0 {
		best, bestSince := 0, time.Time{}
		for i, w := range t.waiting {
			since := w.since
			if w.urgent() {
				since = since.Add(-urgentLead)
			}
			if i == 0 || since.Before(bestSince) {
				best, bestSince = i, since
			}
		}
		close(t.waiting[best].ready)
		t.waiting = slices.Delete(t.waiting, best, best+1)
		t.free--
	}
}

// LimiterLoad counts the places of one kind: how many are free, and how many searches wait for
// one.
type LimiterLoad struct{ Free, Waiting int }

func (t *turns) load() LimiterLoad {
	t.mu.Lock()
	defer t.mu.Unlock()
	return LimiterLoad{Free: t.free, Waiting: len(t.waiting)}
}

const (
	// gapMin and gapMax bound the time between the beginnings of two searches of one
	// Link. The Link's own back-off is longer. This bound holds for other causes: the
	// Peer's nudges, or a path that comes and goes.
	gapMin = time.Second
	gapMax = 8 * time.Second
	// followGap is that of searches which the Peer begins, and spaces itself.
	followGap = 200 * time.Millisecond
)

// gap spaces the searches of one Link: twice as long after each that found no direct
// path, a random part of it at least half. It is a value.
type gap struct {
	boot  string // the Boot of the count; a new Boot starts at zero
	begun time.Time
	long  time.Duration // 0 for the least
}

// wait is how long the next search has to wait.
func (g gap) wait(w wanted, now time.Time, jitter float64) time.Duration {
	if g.begun.IsZero() || w.Boot != g.boot {
		return 0
	}
	long := max(g.long, gapMin)
	if !w.Controlling {
		long = followGap
	}
	return g.begun.Add(long/2 + time.Duration(jitter*float64(long/2))).Sub(now)
}

// begin notes that a search begins.
func (g gap) begin(w wanted, now time.Time) gap {
	if w.Boot != g.boot {
		g = gap{boot: w.Boot}
	}
	g.begun = now
	return g
}

// end notes whether there is a direct path after it.
func (g gap) end(direct bool) gap {
	if direct {
		g.long = 0
	} else {
		g.long = min(2*max(g.long, gapMin), gapMax)
	}
	return g
}
