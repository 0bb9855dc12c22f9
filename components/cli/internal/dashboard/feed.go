package dashboard

import (
	"context"
	"sync"
	"time"

	"cadre.dev/client"
)

// snapshot is the state of a feed. The zero value means that no answer has come yet.
type snapshot struct {
	// value is the last answer; nil: none yet. Readers share it and must not change it.
	value any
	// err is an answer that says no, such as Kind NotFound; nil: the last answer was a value.
	err error
	// lost is why no coordinator answers, and since when; nil: one answers.
	lost      error
	lostSince time.Time
}

func (s snapshot) answered() bool { return s.value != nil || s.err != nil || s.lost != nil }

// source asks the API for one kind of answer until ctx ends. Two sources with the same key give the same answers.
type source struct {
	key string
	run func(ctx context.Context, f *feed)
}

// feed has the newest answer of one source. Safe for concurrent use.
type feed struct {
	now func() time.Time

	mu      sync.Mutex // guards all below
	snap    snapshot
	changed chan struct{} // closed at the next change
	users   int
	idle    *time.Timer // ends the source some time after the last user; nil: there are users
	stop    context.CancelFunc
}

// give publishes an answer.
func (f *feed) give(value any) {
	f.publish(func(snapshot) snapshot { return snapshot{value: value} })
}

// fail publishes an error: an answer that says no, or a coordinator that does not answer.
func (f *feed) fail(err error) {
	if k := client.KindOf(err); k == client.Unavailable || k == client.Timeout {
		f.lose(err)
		return
	}
	f.publish(func(snapshot) snapshot { return snapshot{err: err} })
}

// lose publishes that no coordinator answers. The last answer stays.
func (f *feed) lose(err error) {
	f.publish(func(old snapshot) snapshot {
		if old.lost == nil {
			old.lostSince = f.now()
		}
		old.lost = err
		return old
	})
}

func (f *feed) publish(next func(snapshot) snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.snap = next(f.snap)
	close(f.changed)
	f.changed = make(chan struct{})
}

// look returns the newest answer, and a channel that closes at the next one.
func (f *feed) look() (snapshot, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snap, f.changed
}

// await returns the first answer; the zero value at the end of ctx.
func (f *feed) await(ctx context.Context) snapshot {
	for {
		snap, changed := f.look()
		if snap.answered() {
			return snap
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return snap
		}
	}
}

// linger is how long a source goes on without users: a click to the next page finds it running.
const linger = 15 * time.Second

// hub shares one feed per source among all requests. Safe for concurrent use.
type hub struct {
	ctx context.Context //nolint:containedctx // the sources outlive the request that starts them, and end with Serve
	now func() time.Time
	wg  sync.WaitGroup

	mu    sync.Mutex // guards feeds
	feeds map[string]*feed
}

func newHub(ctx context.Context, now func() time.Time) *hub {
	return &hub{ctx: ctx, now: now, feeds: map[string]*feed{}}
}

// join returns the feed of a source and starts the source if needed. The caller calls leave once.
func (h *hub) join(src source) (f *feed, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f = h.feeds[src.key]
	if f == nil {
		ctx, cancel := context.WithCancel(h.ctx)
		f = &feed{now: h.now, changed: make(chan struct{}), stop: cancel}
		h.feeds[src.key] = f
		h.wg.Go(func() { src.run(ctx, f) })
	}
	if f.users++; f.idle != nil {
		f.idle.Stop()
		f.idle = nil
	}
	return f, func() { h.leave(src.key, f) }
}

func (h *hub) leave(key string, f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.users--; f.users > 0 {
		return
	}
	f.idle = time.AfterFunc(linger, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if f.users == 0 && h.feeds[key] == f {
			f.stop()
			delete(h.feeds, key)
		}
	})
}

// wait returns when all sources have ended; the hub's context must have ended.
func (h *hub) wait() {
	h.wg.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.feeds {
		f.stop()
		if f.idle != nil {
			f.idle.Stop()
		}
	}
}

// poll is a source that asks at an interval.
func poll[T any](key string, every time.Duration, ask func(context.Context) (T, error)) source {
	return source{key: key, run: func(ctx context.Context, f *feed) {
		for ctx.Err() == nil {
			value, err := ask(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				f.fail(err)
			default:
				f.give(value)
			}
			if !pause(ctx, every) {
				return
			}
		}
	}}
}

// rejoin is the interval between two watches after an answer that says no, such as a group that does not exist.
const rejoin = 5 * time.Second

// watchGroup is the one watch of a group.
func watchGroup(cl *client.Client, name string) source {
	return source{key: "group/" + name, run: func(ctx context.Context, f *feed) {
		for {
			err := cl.Watch(ctx, name, 0, func(v client.View) (bool, error) {
				f.give(v)
				return true, nil
			}, f.lose)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				f.fail(err)
			}
			if !pause(ctx, rejoin) {
				return
			}
		}
	}}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
