package member

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/latestvalue"
)

const (
	calm = time.Second
	busy = 200 * time.Millisecond
	// quick is the interval for the first moments after a change: callers of a route wait for the
	// new leader's own report. quickFor bounds it, because a member that stays broken must not be
	// queried so often permanently.
	quick    = 50 * time.Millisecond
	quickFor = 5 * time.Second
	// budget is how long one observation may take before the view counts as unknown. hangs is the
	// same limit for a driver that does not return.
	budget = 2 * time.Second
	hangs  = 10 * time.Second
)

// State is the known state of the member.
type State struct {
	View driver.View
	// Known is false until the driver answered, and again while it cannot.
	Known bool
	// At is when the driver was asked; zero before the first time.
	At time.Time
}

// Watcher observes one driver. Safe for concurrent use.
type Watcher struct {
	log     *slog.Logger
	state   atomic.Pointer[State]
	changes latestvalue.Value[struct{}]
	active  atomic.Bool
	// began is when the observation under way began, in ns since started; 0: there is none.
	began   atomic.Int64
	started time.Time
	kick    chan struct{}
	// reportFrom is the time from which each look is reported, changed or not; nil: only changes are
	// reported.
	reportFrom atomic.Pointer[time.Time]
	// changed is when the view last moved; of Run's goroutine alone.
	changed time.Time

	mu     sync.Mutex
	driver driver.Driver // guarded by mu; never nil
	epoch  int           // guarded by mu; grows with SetDriver
}

// NewWatcher starts with the driver "none" as unknown.
func NewWatcher(log *slog.Logger) *Watcher {
	w := &Watcher{log: log, kick: make(chan struct{}, 1), started: time.Now()}
	w.state.Store(&State{View: driver.View{Role: driver.RoleUnknown}})
	return w
}

// SetDriver replaces the driver; the state is unknown until it answers.
func (w *Watcher) SetDriver(d driver.Driver) {
	w.mu.Lock()
	old := w.driver
	w.driver = d
	w.epoch++
	w.mu.Unlock()
	if old != nil {
		driver.Close(old)
	}
	w.publish(State{View: driver.View{Role: driver.RoleUnknown}})
	w.Kick()
}

// Driver returns the present driver; nil before the first SetDriver.
func (w *Watcher) Driver() driver.Driver {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.driver
}

// State returns the newest state. It is unknown while a look hangs: the previous state may be
// outdated.
func (w *Watcher) State() State {
	if w.Looking() > hangs {
		return unknown("an observation of the workload hangs", time.Time{})
	}
	return *w.state.Load()
}

// Looking is how long the present observation has been running; 0 between two. It should stay near
// the budget (2 s): a driver that ignores its context hangs.
func (w *Watcher) Looking() time.Duration {
	if began := w.began.Load(); began > 0 {
		return time.Since(w.started) - time.Duration(began)
	}
	return 0
}

// ReportNext makes Changes report the next look that begins from now on, changed or not.
func (w *Watcher) ReportNext() {
	now := time.Now()
	w.reportFrom.Store(&now)
	w.Kick()
}

// Changes wakes its readers after a change of state; small changes of the lag do not count.
func (w *Watcher) Changes() *latestvalue.Value[struct{}] { return &w.changes }

// SetActive asks for more frequent observations while an order is carried out.
func (w *Watcher) SetActive(active bool) {
	w.active.Store(active)
	w.Kick()
}

// Kick asks for an observation now.
func (w *Watcher) Kick() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// Run observes until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.kick:
		case <-timer.C:
		}
		w.observe(ctx)
		timer.Reset(w.pause())
	}
}

// pause is short until the member is ready, so that a rejoin is seen at once.
func (w *Watcher) pause() time.Duration {
	s := w.State()
	settled := s.Known && s.View.Ready && (s.View.CaughtUp == nil || *s.View.CaughtUp)
	switch {
	case !settled && time.Since(w.changed) < quickFor:
		return quick
	case settled && !w.active.Load():
		return calm
	default:
		return busy
	}
}

func (w *Watcher) observe(ctx context.Context) {
	w.mu.Lock()
	d, epoch := w.driver, w.epoch
	w.mu.Unlock()
	if d == nil {
		return
	}
	w.began.Store(max(1, int64(time.Since(w.started))))
	defer w.began.Store(0)
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	at := time.Now()
	view, err := d.Observe(ctx)
	w.mu.Lock()
	stale := epoch != w.epoch
	w.mu.Unlock()
	if stale {
		return
	}
	if err != nil {
		if w.State().Known {
			w.log.Warn("workload cannot be observed", "error", err)
		}
		w.publish(unknown(err.Error(), at))
		return
	}
	if moved(w.State().View, view) {
		w.changed = time.Now()
	}
	w.publish(State{View: view, Known: true, At: at})
}

// unknown is the state of a member that its driver could not observe, for this reason.
func unknown(reason string, at time.Time) State {
	return State{View: driver.View{Role: driver.RoleUnknown, Message: reason, MayDisruptReason: reason}, At: at}
}

// moved reports whether the leader or the member's fitness changed. The progress of a member that
// catches up does not count.
func moved(a, b driver.View) bool {
	return a.Role != b.Role || a.Leader != b.Leader || a.Epoch != b.Epoch || a.Liveness != b.Liveness || a.Ready != b.Ready
}

func (w *Watcher) publish(s State) {
	old := w.State()
	w.state.Store(&s)
	from := w.reportFrom.Load()
	asked := from != nil && !s.At.Before(*from) && w.reportFrom.CompareAndSwap(from, nil)
	if old.Known == s.Known && old.View.Equal(s.View) {
		if asked {
			w.changes.Set(struct{}{})
		}
		return
	}
	if old.View.Role != s.View.Role || old.View.Leader != s.View.Leader || old.View.Epoch != s.View.Epoch {
		w.log.Info("member changed", "role", s.View.Role, "leader", s.View.Leader, "epoch", s.View.Epoch,
			"ready", s.View.Ready, "reason", s.View.Message)
	}
	w.changes.Set(struct{}{})
}
