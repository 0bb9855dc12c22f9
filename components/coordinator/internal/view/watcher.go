package view

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/store"
)

// Pauses of the watcher: changes come in bursts, and an unreachable store is retried with a pause.
const (
	burst = 20 * time.Millisecond
	// rate bounds the bytes per second that are read of one constantly changing kind. While a
	// cluster grows about six kinds change, and each of three coordinators reads each from Consul.
	// At 10 MiB a second this costs more than two cores for 1,000 Slots, and slows the growth. A
	// bound in time would not work: on a busy machine a cheap read takes long.
	rate = 2 << 20
	// behind is the maximum pause, so that Views stay recent.
	behind = time.Second
	// rereadEvery is the interval of a full read. A snapshot can be restored with the same indices
	// while no watch is open, and then no watch reports it.
	rereadEvery = 10 * time.Minute
	retryIn     = time.Second
)

const (
	// grace is how long the last View stays valid after the store begins to fail. An election of
	// Consul takes some seconds and must not take a coordinator out of service.
	grace = 10 * time.Second
	// patience is how long the View stays valid when the store does not answer at all. Without
	// changes a Watch answers at its resync, within 75 s.
	patience = 90 * time.Second
)

// Watcher keeps the latest View. Safe for concurrent use.
//
// Each kind of record has its own watch, so the cost of a change depends on the size of its kind.
// Records of one kind are read at one moment, and only changed ones are decoded. A large kind is
// watched and read less often, and delays no other.
type Watcher struct {
	store store.Store
	log   *slog.Logger
	zero  func() time.Time // see CountFrom; set before Run

	mu         sync.Mutex
	latest     *View                      // guarded by mu; nil before the first read
	since      time.Time                  // guarded by mu; of the first read
	until      time.Time                  // guarded by mu; latest counts as current until then
	changed    chan struct{}              // guarded by mu; closed and replaced at each change
	subscribed map[*Subscription]struct{} // guarded by mu
	// watches by prefix; guarded by mu.
	watches map[string]*watch
	// dirty has the kinds to read, and reading the kinds being read. The value is the time since
	// which the View may be stale for the kind; guarded by mu.
	dirty, reading map[kindID]time.Time
	// rest is the pause after a read of a kind, and due is when the pause ends; guarded by mu.
	rest    map[kindID]time.Duration
	due     map[kindID]time.Time
	failing bool // guarded by mu; the last request to the store failed
	unread  bool // guarded by mu; the last read failed

	wake chan struct{} // capacity 1: something is dirty
	// panics contains a panic of one read; with nil a panic ends the process.
	panics *contain.Panics
}

// watch is the last result of one prefix's watch.
type watch struct {
	answered, failing bool
	index             uint64
}

// NewWatcher returns an empty Watcher; Run fills it.
func NewWatcher(s store.Store, log *slog.Logger) *Watcher {
	return &Watcher{
		store: s, log: log, changed: make(chan struct{}), subscribed: map[*Subscription]struct{}{},
		watches: map[string]*watch{}, dirty: map[kindID]time.Time{}, reading: map[kindID]time.Time{}, wake: make(chan struct{}, 1),
		rest: map[kindID]time.Duration{}, due: map[kindID]time.Time{},
	}
}

// Contain limits a panic of a read to that read. Call it before Run.
func (w *Watcher) Contain(panics *contain.Panics) { w.panics = panics }

// Latest is the last View, nil before the first; the channel closes at the next change.
func (w *Watcher) Latest() (*View, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest, w.changed
}

// Since returns when the records were first read; zero before.
func (w *Watcher) Since() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since
}

// Readable reports whether the latest View counts as current: the store answers, or did until
// shortly ago. It is false before the first read.
func (w *Watcher) Readable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.until)
}

// failedLocked records that the store does not answer. A further failure does not extend the grace.
func (w *Watcher) failedLocked(ctx context.Context, err error) {
	if end := time.Now().Add(grace); end.Before(w.until) {
		w.until = end
	}
	if !w.failing && ctx.Err() == nil {
		w.log.Warn("records not readable", "error", err)
	}
	w.failing = true
}

// answeredLocked records that the store answers, and extends the View's validity up to the first
// change that the View lacks. Under constant change there always is such a change; it is recent
// while reads succeed.
func (w *Watcher) answeredLocked() {
	for _, one := range w.watches {
		if one.failing || !one.answered {
			return
		}
	}
	if w.latest == nil || w.unread {
		return
	}
	as := time.Now()
	for _, lacks := range []map[kindID]time.Time{w.dirty, w.reading} {
		for _, since := range lacks {
			if since.Before(as) {
				as = since
			}
		}
	}
	w.until = as.Add(patience)
	if w.failing {
		w.log.Info("records readable again")
		w.failing = false
	}
}

// Run reads and watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for _, k := range followed() {
		for _, prefix := range k.prefixes {
			one := &watch{}
			w.mu.Lock()
			w.watches[prefix] = one
			w.mu.Unlock()
			all.Go(func() { w.watch(ctx, k.id, prefix, one) })
		}
	}
	keep := newKeeper()
	again := time.NewTicker(rereadEvery)
	defer again.Stop()
	later := time.NewTimer(behind)
	defer later.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
			w.allDirty()
		case <-w.wake:
		case <-later.C:
		}
		if !w.Since().IsZero() {
			pause(ctx, burst)
		}
		of, wait := w.takeDirty()
		if wait > 0 {
			later.Reset(wait)
		} else {
			later.Stop()
		}
		if len(of) == 0 {
			continue
		}
		if err := w.panics.Do("records", func() error { return w.read(ctx, &keep, of) }); err != nil {
			if _, crashed := errors.AsType[*contain.Error](err); crashed {
				keep = newKeeper() // the read is incomplete: the View stays, and the next read covers everything
				w.allDirty()
			}
			w.mu.Lock()
			w.unread = true
			w.dirty, w.reading = earlier(w.dirty, w.reading), map[kindID]time.Time{}
			w.failedLocked(ctx, err)
			w.mu.Unlock()
			pause(ctx, retryIn)
			w.nudge()
		}
	}
	return nil
}

// restAfter returns the pause after a read of so many bytes.
func restAfter(bytes int) time.Duration {
	return min(max(burst, time.Duration(bytes)*time.Second/rate), behind)
}

// watch marks a kind as changed whenever a record below the prefix may have changed.
func (w *Watcher) watch(ctx context.Context, id kindID, prefix string, one *watch) {
	index, failing := uint64(0), false
	for ctx.Err() == nil {
		from := index
		if failing {
			from = 0 // a watch from 0 answers as soon as the store answers again
		}
		next, err := w.store.Watch(ctx, prefix, from)
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		failing = err != nil
		if one.failing = failing; failing {
			w.failedLocked(ctx, err)
			w.mu.Unlock()
			pause(ctx, retryIn)
			continue
		}
		news, rest := next != index || !one.answered, w.rest[id]
		if news {
			w.dirtyLocked(id)
			w.nudge()
		}
		one.answered, one.index = true, next
		w.answeredLocked()
		w.mu.Unlock()
		index = next
		if news {
			// Each watch answer costs Consul a read of the whole prefix, so the watch pauses too.
			// The next watch reports changes during the pause at once.
			pause(ctx, rest)
		}
	}
}

func (w *Watcher) allDirty() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range followed() {
		w.dirtyLocked(k.id)
	}
}

// dirtyLocked marks a kind for reading. A kind that is marked already keeps its earlier time.
func (w *Watcher) dirtyLocked(id kindID) {
	if _, waits := w.dirty[id]; !waits {
		w.dirty[id] = time.Now()
	}
}

// earlier returns the earlier time of each kind.
func earlier(a, b map[kindID]time.Time) map[kindID]time.Time {
	out := maps.Clone(a)
	for id, at := range b {
		if other, both := out[id]; !both || at.Before(other) {
			out[id] = at
		}
	}
	return out
}

func (w *Watcher) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// takeDirty returns the kinds to read now, and the time until the next is due; 0: none waits. Until
// each watch has answered it returns none, so that the first read covers everything at one moment.
func (w *Watcher) takeDirty() (of []kind, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.watches {
		if !one.answered {
			return nil, 0
		}
	}
	now := time.Now()
	for _, k := range followed() {
		since, waits := w.dirty[k.id]
		switch left := w.due[k.id].Sub(now); {
		case !waits:
		case left > 0 && (wait == 0 || left < wait):
			wait = left
		case left > 0:
		default:
			of = append(of, k)
			w.reading[k.id] = since
			delete(w.dirty, k.id)
		}
	}
	return of, wait
}

// readLocked records the size of a kind's last read.
func (w *Watcher) readLocked(id kindID, bytes int) {
	w.rest[id] = restAfter(bytes)
	w.due[id] = time.Now().Add(w.rest[id])
}

// keeper is the reader's cache of each kind.
type keeper struct {
	stamps map[kindID]map[string]stamp
	known  map[kindID]*memo
	floor  map[kindID]uint64 // highest index seen of the kind
}

func newKeeper() keeper {
	return keeper{stamps: map[kindID]map[string]stamp{}, known: map[kindID]*memo{}, floor: map[kindID]uint64{}}
}

// read reads these kinds at one moment and publishes the changes.
func (w *Watcher) read(ctx context.Context, keep *keeper, of []kind) error {
	w.mu.Lock()
	before := w.latest
	seen := map[kindID]uint64{}
	for _, k := range of {
		for _, prefix := range k.prefixes {
			seen[k.id] = max(seen[k.id], w.watches[prefix].index)
		}
	}
	w.mu.Unlock()
	entries, err := w.store.Together(ctx, prefixesOf(of)...)
	if err != nil {
		return err
	}
	sizes := map[kindID]int{}
	after := &View{zero: w.zero}
	if before != nil {
		*after = *before
	}
	after.turn++
	var all Changes
	some := before == nil
	for _, k := range of {
		if keep.known[k.id] == nil {
			keep.known[k.id] = &memo{}
		}
		own := k.of(entries)
		sizes[k.id] = sizeOf(own)
		is := stamps(own)
		floor := keep.floor[k.id]
		keep.floor[k.id] = seen[k.id]
		for _, s := range is {
			keep.floor[k.id] = max(keep.floor[k.id], s.index)
		}
		was := keep.stamps[k.id]
		if was != nil && maps.Equal(was, is) {
			continue
		}
		keep.known[k.id].turn()
		after.take(ctx, k, moment{entries: own, known: keep.known[k.id]})
		after.said[k.id] = keep.known[k.id].said()
		keep.stamps[k.id] = is
		some = true
		if before != nil {
			all.add(changes(was, is, before, after))
			all.All = all.All || wentBack(was, is, floor)
		}
	}
	after.Index = 0
	for _, index := range keep.floor {
		after.Index = max(after.Index, index)
	}
	after.collectBad()
	if before == nil {
		all = Changes{All: true}
	}
	w.mu.Lock()
	for id, size := range sizes {
		w.readLocked(id, size)
	}
	w.mu.Unlock()
	w.publish(after, all, some)
	return nil
}

// sizeOf estimates the size of the entries on the wire, in bytes.
func sizeOf(entries []store.Entry) (bytes int) {
	for _, e := range entries {
		bytes += len(e.Key) + 4*len(e.Value)/3 + 128
	}
	return bytes
}

func (w *Watcher) publish(v *View, changed Changes, some bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		w.since = time.Now()
	}
	known := map[string]uint64{}
	if w.latest != nil && len(v.Bad) > 0 {
		for _, bad := range w.latest.Bad {
			known[bad.Key] = bad.Index
		}
	}
	for _, bad := range v.Bad {
		if index, logged := known[bad.Key]; !logged || index != bad.Index {
			w.log.Error("record not usable", "key", bad.Key, "error", bad.Err)
		}
	}
	w.latest, w.unread = v, false
	w.reading = map[kindID]time.Time{}
	w.answeredLocked()
	if !some {
		return
	}
	close(w.changed)
	w.changed = make(chan struct{})
	for s := range w.subscribed {
		s.pending.add(changed)
		if s.pending.Any() {
			s.wake()
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
