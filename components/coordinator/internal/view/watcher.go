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

// Pauses of the watcher: changes come in bursts, and an unreachable store is
// not asked in a tight loop.
const (
	burst = 20 * time.Millisecond
	// rate is how many bytes a second are read of one kind while it changes all the time.
	// While a cluster grows half a dozen kinds do, and each of three coordinators reads each
	// of them from Consul: at 10 MiB a second that is more than two cores for 1,000 Slots,
	// and the growth waits for them. The clock would not do: on a machine that is busy with
	// other things a read takes long without costing much.
	rate = 2 << 20
	// behind bounds the pause all the same: Views must not grow old for it.
	behind = time.Second
	// rereadEvery is how often everything is read again that no watch told of: a snapshot
	// may be put back while nobody looks, with the indices that were there before.
	rereadEvery = 10 * time.Minute
	retryIn     = time.Second
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
//
// Each kind of record has a watch of its own, so that a change costs what there is of its
// kind: what changed together is read at one moment, and decoded as far as it changed. A kind
// with many bytes is watched and read more seldom, and delays no other.
type Watcher struct {
	store store.Store
	log   *slog.Logger
	zero  func() time.Time // see CountFrom; set before Run

	mu         sync.Mutex
	latest     *View                      // guarded by mu; nil before the first read
	since      time.Time                  // guarded by mu; of the first read
	until      time.Time                  // guarded by mu; latest counts as what the records say
	changed    chan struct{}              // guarded by mu; closed and replaced at each change
	subscribed map[*Subscription]struct{} // guarded by mu
	// watches by prefix; guarded by mu.
	watches map[string]*watch
	// dirty are the kinds that are to be read, and reading those that are being read, with
	// the moment since which the View may lack something of them; guarded by mu.
	dirty, reading map[kindID]time.Time
	// rest is how long a kind is left alone after it was read, due when that is over; guarded
	// by mu.
	rest    map[kindID]time.Duration
	due     map[kindID]time.Time
	failing bool // guarded by mu; the store did not answer last
	unread  bool // guarded by mu; the last read failed

	wake chan struct{} // capacity 1: something is dirty
	// panics contain a panic of one reading; nil: it ends the process.
	panics *contain.Panics
}

// watch is what one prefix's said last.
type watch struct {
	answered, failing bool
	index             uint64
}

// NewWatcher starts empty; Run fills it.
func NewWatcher(s store.Store, log *slog.Logger) *Watcher {
	return &Watcher{
		store: s, log: log, changed: make(chan struct{}), subscribed: map[*Subscription]struct{}{},
		watches: map[string]*watch{}, dirty: map[kindID]time.Time{}, reading: map[kindID]time.Time{}, wake: make(chan struct{}, 1),
		rest: map[kindID]time.Duration{}, due: map[kindID]time.Time{},
	}
}

// Contain has a panic of a reading fail that reading alone. Call it before Run.
func (w *Watcher) Contain(panics *contain.Panics) { w.panics = panics }

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

// failedLocked notes that the store does not answer. Failing on does not prolong the grace.
func (w *Watcher) failedLocked(ctx context.Context, err error) {
	if end := time.Now().Add(grace); end.Before(w.until) {
		w.until = end
	}
	if !w.failing && ctx.Err() == nil {
		w.log.Warn("records not readable", "error", err)
	}
	w.failing = true
}

// answeredLocked notes that the store answers, and that the View is what it said until the
// first change that the View lacks: where something changes all the time there is always
// one, and it is a moment old while reads succeed.
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
				keep = newKeeper() // it is half made: the View stays what it was, and everything is read again
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

// restAfter a read of so many bytes.
func restAfter(bytes int) time.Duration {
	return min(max(burst, time.Duration(bytes)*time.Second/rate), behind)
}

// watch marks a kind as changed whenever something below the prefix may have.
func (w *Watcher) watch(ctx context.Context, id kindID, prefix string, one *watch) {
	index, failing := uint64(0), false
	for ctx.Err() == nil {
		from := index
		if failing {
			from = 0 // it answers at once that it answers again
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
			// To look whether more changed costs Consul what there is, too; what does until
			// then is told at once by the next look.
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

// dirtyLocked has a kind read; one that waits for that already has waited since then.
func (w *Watcher) dirtyLocked(id kindID) {
	if _, waits := w.dirty[id]; !waits {
		w.dirty[id] = time.Now()
	}
}

// earlier has the earlier moment of each kind.
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

// takeDirty are the kinds to read now, and how long it is until the next one is due, 0 where
// none waits: a change tells of itself. There are none before each watch answered, so that the
// first read is one of everything at one moment.
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

// readLocked notes how much there was of a kind.
func (w *Watcher) readLocked(id kindID, bytes int) {
	w.rest[id] = restAfter(bytes)
	w.due[id] = time.Now().Add(w.rest[id])
}

// keeper is what the reader remembers of each kind.
type keeper struct {
	stamps map[kindID]map[string]stamp
	known  map[kindID]*memo
	floor  map[kindID]uint64 // highest index that was seen of it
}

func newKeeper() keeper {
	return keeper{stamps: map[kindID]map[string]stamp{}, known: map[kindID]*memo{}, floor: map[kindID]uint64{}}
}

// read reads these kinds at one moment and publishes what changed.
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

// sizeOf is about how many bytes travel with these.
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
		if index, told := known[bad.Key]; !told || index != bad.Index {
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
