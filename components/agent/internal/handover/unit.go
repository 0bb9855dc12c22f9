package handover

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// lookWithin bounds one look at Envoy, on a unix socket of this CVM.
	lookWithin = 500 * time.Millisecond
	// restFirst and restMost pace the tries of a route's address that cannot be served.
	restFirst = 100 * time.Millisecond
	restMost  = 5 * time.Second
)

// unit is a running route.
type unit struct {
	cfg    Config
	log    *slog.Logger
	pauser pauser
	events chan event
	// asks are requests to pause that want an answer.
	asks chan ask
	// closing is closed when the unit stops taking events, ended when all its work is over.
	closing, ended chan struct{}
	cancel         context.CancelFunc

	mu      sync.Mutex
	route   Route  // guarded by mu
	paused  bool   // guarded by mu
	problem string // guarded by mu; why the address is not served
	stale   string // guarded by mu; why it is served by the settings of before

	// Owned by loop.
	machine machine
	waiters map[string][]chan<- answer // by operation
	looking bool
	undo    context.CancelFunc // of the pause in progress
	jobs    queue
}

type ask struct {
	pauseAsked

	to chan<- answer // capacity 1
}

type answer struct {
	state   State
	message string
}

func newUnit(r Route, h pauser, cfg Config) *unit {
	return &unit{
		cfg: cfg, log: cfg.Log.With("route", r.Name), pauser: h, route: r, machine: r.machine(),
		events: make(chan event), asks: make(chan ask), closing: make(chan struct{}), ended: make(chan struct{}),
		waiters: map[string][]chan<- answer{}, undo: func() {}, jobs: newQueue(),
	}
}

func (r Route) machine() machine {
	m := machine{pooled: r.Pooler != "", others: r.Role == "follower" || r.Role == "learner", reached: Waiting}
	if m.pooled {
		m.reached = Paused
	}
	return m
}

// start runs u until ctx or cancel ends it. The unit opens the route before its pauser ends.
func (u *unit) start(ctx context.Context) {
	ctx, u.cancel = context.WithCancel(ctx)
	go func() {
		defer close(u.ended)
		serving, stop := context.WithCancel(context.WithoutCancel(ctx))
		var server, looks, jobs sync.WaitGroup
		server.Go(func() { u.serve(serving) })
		jobs.Go(func() { u.jobs.run(serving) })
		u.loop(ctx, &looks)
		u.jobs.close()
		jobs.Wait()
		looks.Wait()
		stop()
		server.Wait()
	}()
}

// serve runs the pauser, again after an error.
func (u *unit) serve(ctx context.Context) {
	rest, logged := restFirst, ""
	for {
		err := u.pauser.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended")
		}
		u.setProblem(err.Error())
		if err.Error() != logged {
			logged = err.Error()
			u.log.Error("a route's address is not served", "error", err)
		}
		timer := time.NewTimer(rest)
		rest = min(2*rest, restMost)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		u.setProblem("")
	}
}

func (u *unit) setProblem(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.problem = text
}

// pause asks for a pause and waits for its outcome.
func (u *unit) pause(ctx context.Context, e pauseAsked) answer {
	to := make(chan answer, 1)
	select {
	case u.asks <- ask{e, to}:
	case <-u.closing:
		return answer{Released, "the route is no more"}
	case <-ctx.Done():
		return answer{Unknown, context.Cause(ctx).Error()}
	}
	select {
	case a := <-to:
		return a
	case <-ctx.Done():
		return answer{Unknown, context.Cause(ctx).Error()}
	}
}

// send delivers e to the unit, unless the unit no longer takes events.
func (u *unit) send(e event) {
	select {
	case u.events <- e:
	case <-u.closing:
	}
}

// loop owns the machine until ctx ends; then it opens.
func (u *unit) loop(ctx context.Context, looks *sync.WaitGroup) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var e event
		select {
		case e = <-u.events:
			if _, is := e.(seen); is {
				u.looking = false
			}
		case a := <-u.asks:
			u.waiters[a.operation] = append(u.waiters[a.operation], a.to)
			e = a.pauseAsked
		case <-timer.C:
			e = tick{}
		case <-ctx.Done():
			u.act(ctx, looks, u.machine.step(time.Now(), changed{"the route is no more"}))
			close(u.closing)
			for _, waiters := range u.waiters {
				for _, to := range waiters {
					to <- answer{Released, "the route is no more"}
				}
			}
			return
		}
		u.act(ctx, looks, u.machine.step(time.Now(), e))
		if at := u.machine.next(); !at.IsZero() {
			timer.Reset(time.Until(at))
		} else {
			timer.Stop()
		}
	}
}

func (u *unit) act(ctx context.Context, looks *sync.WaitGroup, effects []effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case doPause:
			u.doPause(ctx, e)
		case doOpen:
			u.doOpen(e)
		case doAnswer:
			for _, to := range u.waiters[e.operation] {
				to <- answer{e.state, e.message}
			}
			delete(u.waiters, e.operation)
		case doLook:
			if !u.looking && ctx.Err() == nil {
				u.looking = true
				looks.Go(func() { u.look(ctx, e.age) })
			}
		case doReconnect:
			u.jobs.push(func(ctx context.Context) {
				if err := u.pauser.reconnect(ctx); err != nil {
					u.log.Warn("a pooler keeps servers of endpoints that are gone", "error", err)
				}
			})
		}
	}
}

func (u *unit) doPause(ctx context.Context, e doPause) {
	u.mu.Lock()
	u.paused = true
	group := u.route.Group
	u.mu.Unlock()
	ctx, undo := context.WithCancel(ctx)
	u.undo()
	u.undo = undo
	u.jobs.push(func(context.Context) {
		err := u.pauser.pause(ctx, e.limit)
		switch {
		case err == nil:
			u.log.Info("a route is paused", "group", group, "operation", e.operation, "limit", e.limit)
		case ctx.Err() == nil:
			u.log.Warn("a route cannot be paused", "group", group, "operation", e.operation, "error", err)
		}
		// The loop may wait for nothing that this waits for: its jobs have no bound.
		u.send(done{e.operation, err})
	})
}

func (u *unit) doOpen(e doOpen) {
	u.mu.Lock()
	u.paused = false
	group := u.route.Group
	u.mu.Unlock()
	u.undo()
	u.jobs.push(func(ctx context.Context) {
		waited, err := u.pauser.open(ctx)
		level := slog.LevelInfo
		attrs := []any{
			"group", group, "operation", e.operation, "paused", e.paused.Round(time.Millisecond), "connections", waited, "reason", e.why,
		}
		if err != nil {
			attrs = append(attrs, "error", err)
		}
		if e.expired || err != nil {
			level = slog.LevelWarn
		}
		u.log.Log(ctx, level, "a route is released", attrs...)
	})
}

// look returns Envoy's endpoints for the route, or nothing if Envoy does not answer.
func (u *unit) look(ctx context.Context, age time.Duration) {
	u.mu.Lock()
	name := u.route.Name
	u.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	endpoints, err := u.cfg.Endpoints(ctx, name, age)
	if err != nil {
		u.log.Debug("a route's endpoints are not known", "error", err)
		u.send(seen{failed: true})
		return
	}
	endpoints = slices.Clone(endpoints)
	slices.SortFunc(endpoints, netip.AddrPort.Compare)
	u.send(seen{endpoints: slices.Compact(endpoints)})
}

// stats returns the present figures.
func (u *unit) stats() Stats {
	u.mu.Lock()
	out := Stats{Route: u.route.Name, Group: u.route.Group, Paused: u.paused, Problem: cmp.Or(u.problem, u.stale)}
	u.mu.Unlock()
	u.pauser.stats(&out)
	return out
}

// queue runs jobs one after the other, with no bound on the number of waiting jobs: each job
// belongs to an effect, and push must not block on a running job.
type queue struct {
	mu     *sync.Mutex
	more   chan struct{} // capacity 1
	list   []func(context.Context)
	closed bool
}

func newQueue() queue { return queue{mu: &sync.Mutex{}, more: make(chan struct{}, 1)} }

func (q *queue) push(job func(context.Context)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, job)
	q.wakeLocked()
}

// close ends run once all is done.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeLocked()
}

func (q *queue) wakeLocked() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *queue) run(ctx context.Context) {
	for range q.more {
		for {
			q.mu.Lock()
			if len(q.list) == 0 {
				closed := q.closed
				q.mu.Unlock()
				if closed {
					return
				}
				break
			}
			job := q.list[0]
			q.list = q.list[1:]
			q.mu.Unlock()
			job(ctx)
		}
	}
}
