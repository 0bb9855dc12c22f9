package view

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"cadre.dev/store"
)

// Pauses of the watcher: changes come in bursts, and an unreachable store is
// not asked in a tight loop.
const (
	burst = 20 * time.Millisecond
	// share: while records change all the time, reading them all takes a tenth of a
	// core at most, however many there are.
	share = 9
	// behind bounds the pause all the same: on a machine that is busy with other things
	// a read takes long without costing much, and Views must not grow old for it.
	behind  = time.Second
	retryIn = time.Second
)

const (
	// grace is how long the last View counts after the store began to fail: an election
	// of Consul takes some seconds, and is no reason to take a coordinator out of service.
	grace = 10 * time.Second
	// patience is how long it counts when the store says nothing at all. While nothing
	// changes, a Watch answers at its resync, within 75 s.
	patience = 90 * time.Second
)

// Watcher keeps the latest View. Safe for concurrent use.
type Watcher struct {
	store store.Store
	log   *slog.Logger

	mu      sync.Mutex
	latest  *View         // guarded by mu; nil before the first read
	since   time.Time     // guarded by mu; of the first read
	until   time.Time     // guarded by mu; latest counts as what the records say
	changed chan struct{} // guarded by mu; closed and replaced at each change
}

// NewWatcher starts empty; Run fills it.
func NewWatcher(s store.Store, log *slog.Logger) *Watcher {
	return &Watcher{store: s, log: log, changed: make(chan struct{})}
}

// Latest is the last View, nil before the first; the channel closes at the next change.
func (w *Watcher) Latest() (*View, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest, w.changed
}

// Since is when the records were first read; zero before.
func (w *Watcher) Since() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since
}

// Readable reports whether the latest View is what the records say, but for a moment:
// the store answers, or did until shortly ago. False before the first read.
func (w *Watcher) Readable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.until)
}

// failed notes that the store does not answer. Failing on does not prolong the grace.
func (w *Watcher) failed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if end := time.Now().Add(grace); end.Before(w.until) {
		w.until = end
	}
}

// Run reads and watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	failing := false
	var index uint64
	known := &memo{}
	for ctx.Err() == nil {
		began := time.Now()
		v, err := read(ctx, w.store, known)
		took := time.Since(began)
		if err != nil {
			if !failing && ctx.Err() == nil {
				w.log.Warn("records not readable", "error", err)
			}
			failing = true
			w.failed()
			pause(ctx, retryIn)
			continue
		}
		if failing {
			w.log.Info("records readable again")
			failing = false
		}
		w.publish(v)
		index = v.Index
		if _, err := w.store.Watch(ctx, "", index); err != nil {
			w.failed()
			pause(ctx, retryIn)
			continue
		}
		pause(ctx, pauseAfter(took))
	}
	return nil
}

// pauseAfter a read that took so long.
func pauseAfter(took time.Duration) time.Duration { return min(max(burst, share*took), behind) }

func (w *Watcher) publish(v *View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.since.IsZero() {
		w.since = now
	}
	w.until = now.Add(patience)
	for _, bad := range v.Bad {
		if w.latest == nil || !hasBad(w.latest.Bad, bad) {
			w.log.Error("record not usable", "key", bad.Key, "error", bad.Err)
		}
	}
	if w.latest != nil && w.latest.Index == v.Index {
		w.latest = v
		return
	}
	w.latest = v
	close(w.changed)
	w.changed = make(chan struct{})
}

func hasBad(all []*store.RecordError, one *store.RecordError) bool {
	for _, b := range all {
		if b.Key == one.Key && b.Index == one.Index {
			return true
		}
	}
	return false
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
