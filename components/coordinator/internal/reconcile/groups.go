package reconcile

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// maxPasses bounds the passes that run at once: after a takeover every group wants one.
const maxPasses = 32

// unread is the index of a change that no read is known to include.
const unread = ^uint64(0)

// worker is the loop of one group.
type worker struct {
	stop context.CancelFunc
	c    chan struct{} // capacity 1: one wake-up stands for all
	// index of the newest change that woke the worker.
	index atomic.Uint64
}

// wake announces a change. A change that the worker has already read costs nothing.
func (w *worker) wake(index uint64) {
	for {
		old := w.index.Load()
		if index <= old || w.index.CompareAndSwap(old, index) {
			break
		}
	}
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// groups are the workers of all groups under one Lease.
type groups struct {
	*Reconciler
	lease   store.Lease
	all     *sync.WaitGroup
	workers map[string]*worker
	turns   chan struct{} // occupied during a pass
	// The findings of the last wake-up for findings of the audit.
	reported []auditFinding
}

// runGroups keeps one worker for each group that exists. It wakes the worker for a record of its
// group, and for a report or the silence of one of its Slots.
func (r *Reconciler) runGroups(ctx context.Context, lease store.Lease) {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.cfg.Guard != nil {
		all.Go(func() { r.keep(ctx, "guard", func(ctx context.Context) { r.cfg.Guard(ctx, lease) }) })
	}
	all.Go(func() { r.keep(ctx, "audit", r.audit) })
	all.Go(func() { r.keep(ctx, "edits", func(ctx context.Context) { r.noticeEdits(ctx, lease) }) })
	records, reported := r.cfg.Views.Subscribe(), r.cfg.Reports.Subscribe()
	defer records.Close()
	defer reported.Close()
	g := &groups{Reconciler: r, lease: lease, all: &all, workers: map[string]*worker{}, turns: make(chan struct{}, maxPasses)}
	sweep, listen := time.NewTicker(sweepEvery), time.NewTicker(listenEvery)
	defer sweep.Stop()
	defer listen.Stop()
	heard := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-records.C():
			v, changed := records.Take()
			if v == nil {
				continue
			}
			g.keep(ctx, v, changed)
			if !crowded(v) {
				continue
			}
			if err := r.remove(ctx, lease, r.oldOperations(v)); err != nil && ctx.Err() == nil {
				r.log.Warn("old operations not removed", "error", err)
			}
		case <-g.line.changed:
			g.wakeNext()
		case <-reported.C():
			for slot := range reported.Take() {
				g.wakeFor(slot)
			}
		case <-listen.C:
			now := time.Now()
			for _, after := range r.silences() {
				for _, slot := range r.cfg.Reports.Overdue(after, after+now.Sub(heard)) {
					g.wakeFor(slot)
				}
			}
			heard = now
			g.listened()
		case <-sweep.C:
			if err := r.sweep(ctx, lease); err != nil && ctx.Err() == nil {
				r.log.Warn("old records not removed", "error", err)
			}
		}
	}
}

// listened checks facts that no record and no report announces, while all groups may be idle:
// whether the agents know of newer records than these, and findings of the audit.
func (g *groups) listened() {
	g.mu.Lock()
	auditFindings := g.auditFindings
	g.mu.Unlock()
	if !slices.Equal(auditFindings, g.reported) {
		for _, s := range slices.Concat(auditFindings, g.reported) {
			for name, w := range g.workers {
				if s.group == "" || s.group == name {
					w.wake(unread)
				}
			}
		}
		g.reported = auditFindings
	}
	if err := overtaken(g.cfg.Reports.Term(), g.lease.Term()); err != nil {
		g.halt(err)
		return
	}
	if g.Halted() == "" {
		return
	}
	// A pass determines whether the halt is over.
	for _, w := range g.workers {
		w.wake(unread)
		return
	}
}

// keep starts and stops workers as groups come and go, and wakes the workers of changed groups.
func (g *groups) keep(ctx context.Context, v *view.View, changed view.Changes) {
	if changed.All {
		known := map[string]bool{}
		for _, name := range v.Known() {
			known[name] = true
			g.one(ctx, name).wake(unread)
		}
		for name := range g.workers {
			if !known[name] {
				g.end(name)
			}
		}
		return
	}
	g.wakeOthers(v, changed)
	for name, index := range changed.Groups {
		_, stored := v.Specs[name]
		_, accepted := v.Accepted[name]
		if stored || accepted {
			g.one(ctx, name).wake(index)
			continue
		}
		g.end(name)
	}
}

// one returns the group's worker, and starts it if there is none.
func (g *groups) one(ctx context.Context, name string) *worker {
	if w, runs := g.workers[name]; runs {
		return w
	}
	own, stop := context.WithCancel(ctx)
	w := &worker{stop: stop, c: make(chan struct{}, 1)}
	g.workers[name] = w
	g.all.Go(func() { g.run(own, w, name) })
	return w
}

// wakeOthers wakes the groups that may wait for a changed group: each group that is `after` it, and each group that is
// being deleted, perhaps after it. A group that is after others may also have read its own records before theirs were known.
func (g *groups) wakeOthers(v *view.View, changed view.Changes) {
	wake := func(name string) {
		if w, runs := g.workers[name]; runs {
			w.wake(unread)
		}
	}
	for name := range v.Deletes {
		wake(name)
	}
	for name := range v.Accepted {
		if after := v.Accepted[name].Value.After; len(after) > 0 && slices.ContainsFunc(append(after[:len(after):len(after)], name), changed.Has) {
			wake(name)
		}
	}
}

// wakeNext wakes the groups that may have a place at the limits of the cluster now.
func (g *groups) wakeNext() {
	latest, _ := g.cfg.Views.Latest()
	if latest == nil {
		return
	}
	for _, name := range g.line.next(latest.Limits.Of()) {
		if w, runs := g.workers[name]; runs {
			w.wake(unread)
		}
	}
}

func (g *groups) end(name string) {
	g.line.leave(name, true)
	if w, runs := g.workers[name]; runs {
		w.stop()
		delete(g.workers, name)
	}
}

// wakeFor wakes the group of a Slot whose agent reported or fell silent.
func (g *groups) wakeFor(slot string) {
	name, _, err := group.ParseSlot(slot)
	if err != nil {
		return
	}
	if w, runs := g.workers[name]; runs {
		w.wake(unread)
	}
}

// run is the loop of one group.
func (g *groups) run(ctx context.Context, w *worker, name string) {
	log := g.log.With("group", name, "term", g.lease.Term())
	failing, remembered, crashes := "", &pace{}, 0
	for ctx.Err() == nil {
		// The next pass reads all changes from here on.
		w.index.Store(0)
		select {
		case <-w.c:
		default:
		}
		select {
		case g.turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		started := time.Now()
		one := &pass{Reconciler: g.Reconciler, log: log, lease: g.lease, name: name, pace: remembered}
		next, err := one.contained(ctx)
		<-g.turns
		took := time.Since(started)
		if _, crashed := errors.AsType[*contain.Error](err); crashed && ctx.Err() == nil {
			g.cfg.Metrics.Pass(name, "panic", took.Seconds())
			// The panic left the pass's data half done: the next pass begins from the records.
			remembered = &pace{}
			g.line.leave(name, false)
			wait(ctx, errorWait)
			w.rest(ctx, min(errorWait<<min(crashes, 8), calmest), one.read)
			crashes++
			continue
		}
		crashes = 0
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrFenced):
			log.Warn("fenced: another leader writes", "error", err)
			return
		case errors.Is(err, store.ErrConflict):
			// Another writer changed a record after this pass read it: read again.
			g.cfg.Metrics.Pass(name, "conflict", took.Seconds())
			wait(ctx, burst)
			continue
		case err != nil:
			g.cfg.Metrics.Pass(name, "error", took.Seconds())
			if text := err.Error(); text != failing {
				log.Error("pass not done", "error", err)
				failing = text
			}
			wait(ctx, errorWait)
			continue
		}
		g.cfg.Metrics.Pass(name, "done", took.Seconds())
		failing = ""
		if next.again {
			// The next pass follows this pass's own writes without waiting. The short break keeps a
			// group that never settles from occupying the machine.
			wait(ctx, breath)
			continue
		}
		if next.in > listIdle {
			remembered.view, remembered.seen = nil, nil // it takes as much memory as the group's records
		}
		wait(ctx, burst)
		w.rest(ctx, next.in, one.read)
	}
}

// rest waits until a change beyond index read arrives, or for the duration in.
func (w *worker) rest(ctx context.Context, in time.Duration, read uint64) {
	timer := time.NewTimer(in)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-w.c:
			if w.index.Load() > read {
				return
			}
		}
	}
}

// pace is a worker's memory between passes. It sets the pace, detects a changed clock, and avoids
// decoding unchanged records again.
type pace struct {
	// view is the last pass's view of the records. It is nil before the first pass, and where the
	// next pass is far off. seen is the evaluation of that view; nil: the records changed since.
	view *view.View
	seen *observe.Seen
	// led: a pass of this Term read the group; every change since then woke it.
	led bool
	// calm counts the consecutive passes that found trouble and could not act on it.
	calm int
	// off is how far the wall clock had moved, at the last pass, against the monotonic clock.
	// clocked: off is known.
	off     time.Duration
	clocked bool
	// movedAt is the time in the status of the last move of recorded clocks, to the offset movedTo.
	// It is set until a pass reads it there.
	movedAt time.Time
	movedTo time.Duration
}

// spread returns a random duration from d/2 to 3d/2, so that passes of all groups do not coincide
// again.
func spread(d time.Duration) time.Duration {
	return d/2 + rand.N(d) //nolint:gosec // an attacker gains nothing by a guess
}

// silences are the ages of an agent's last report at which its group gets a pass. From the first
// age on, the Slot is silent.
func (r *Reconciler) silences() []time.Duration {
	stale := r.cfg.Timing.OrDefault().StaleAfter
	return slices.Compact([]time.Duration{min(missedAfter, stale), stale})
}
