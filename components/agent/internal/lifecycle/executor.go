package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/durable"
	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/member"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// regainLimit bounds how often one order hands regained leadership over again: an outside cause
// moves it back (workload-handover 2.5).
const regainLimit = 2

// Config makes an Executor. All fields but Callers are required.
type Config struct {
	Slot string
	// Disk keeps the finished results.
	Disk   *durable.Disk
	Member *member.Watcher
	// Hooks returns the hooks of the newest configuration.
	Hooks func() []group.LifecycleHook
	// Commands runs exec hooks.
	Commands Commands
	// Callers pauses the clients of this member while leadership moves; nil: no client is paused.
	Callers Callers
	Log     *slog.Logger
}

// Callers are the clients of the routes that follow this member's role.
type Callers interface {
	// Pause pauses the clients, and names in a few words the members that did not pause; "" if all
	// did. Pause returns within a few seconds, and its failure never stops a hand-over.
	Pause(ctx context.Context, k Key) string
	// Release resumes the clients, at leader if it is not "". It returns within a second.
	Release(ctx context.Context, k Key, leader string)
}

// Commands runs exec hooks in the containers of their services, and restarts these.
type Commands interface {
	RunUntil(ctx context.Context, a group.ExecAction, env []string, limit time.Duration) error
	Restart(ctx context.Context, service string) error
}

// Executor carries out one order at a time. Safe for concurrent use.
type Executor struct {
	cfg    Config
	orders latestvalue.Value[*Order]
	status latestvalue.Value[Status]

	mu      sync.Mutex
	results *results  // guarded by mu
	current *Result   // guarded by mu; of the order at work
	open    *openHook // guarded by mu
	ended   time.Time // guarded by mu; when this Boot ended an order last
}

// New reads the finished results from the disk.
func New(cfg Config) (*Executor, error) {
	finished, err := openResults(cfg.Disk)
	if err != nil {
		return nil, err
	}
	e := &Executor{cfg: cfg, results: finished}
	e.status.Set(Status{State: InService})
	return e, nil
}

// Apply sets the leader's present order; nil is no order. It does not block, and may be repeated.
func (e *Executor) Apply(o *Order) {
	e.orders.Update(func(*Order) *Order { return o })
}

// Results returns the result of the present order and recent finished ones, newest first.
func (e *Executor) Results() []Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Result
	if e.current != nil {
		out = append(out, *e.current)
	}
	const reported = 8
	for _, r := range slices.Backward(e.results.list) {
		if len(out) < reported && (e.current == nil || r.Key != e.current.Key) {
			out = append(out, r)
		}
	}
	return out
}

// Run carries out orders until ctx ends. Work that is cut off then has no
// result, and is begun again by the next Boot if it is still ordered.
func (e *Executor) Run(ctx context.Context) error {
	var (
		at      *running
		regains = map[Key]int{}
	)
	for {
		order, index := e.orders.Get()
		_, views := e.cfg.Member.Changes().Get()
		at = e.reconcile(ctx, at, order, regains)
		var done chan struct{}
		if at != nil {
			done = at.done
		}
		select {
		case <-done:
			at = nil
			e.cfg.Member.SetActive(false)
			e.cfg.Member.ReportNext() // it may still lead, or lead again, without a change of state
		case <-e.orders.Changed(index):
		case <-e.cfg.Member.Changes().Changed(views):
		case <-ctx.Done():
			if at != nil {
				at.stop(context.Cause(ctx))
			}
			return nil
		}
	}
}

// running is a step in its own goroutine.
type running struct {
	order  Order
	cancel context.CancelCauseFunc
	done   chan struct{}
}

func (r *running) stop(why error) {
	r.cancel(why)
	<-r.done
}

var errSuperseded = errors.New("the leader ordered something else")

// reconcile makes the running step match the order.
func (e *Executor) reconcile(ctx context.Context, at *running, order *Order, regains map[Key]int) *running {
	if at != nil && (order == nil || order.Key != at.order.Key) {
		at.stop(errSuperseded)
		e.callOff(ctx, at.order, order)
		at = nil
	}
	if at != nil || order == nil {
		return at
	}
	e.mu.Lock()
	old, finished := e.results.find(order.Key)
	e.mu.Unlock()
	if !finished {
		clear(regains)         // an order that another one followed does not come back
		regains[order.Key] = 0 // finished by this Boot from here on
		return e.start(ctx, *order, Result{})
	}
	used, here := regains[order.Key]
	if here && used < regainLimit && e.regained(*order, old) {
		regains[order.Key]++
		e.cfg.Log.Warn("the member leads again after the drain", "operation", order.Operation)
		return e.start(ctx, *order, old)
	}
	return nil
}

// callOff returns to service when a drain at work is no longer wanted and no
// order of the same Operation takes it up (R82).
func (e *Executor) callOff(ctx context.Context, was Order, now *Order) {
	e.mu.Lock()
	_, finished := e.results.find(was.Key)
	e.current = nil
	e.mu.Unlock()
	e.cfg.Member.SetActive(false)
	if finished {
		return
	}
	e.cfg.Log.Info("order called off", "operation", was.Operation, "verb", was.Verb, "attempt", was.Attempt)
	e.status.Set(Status{State: InService})
	sameOperation := now != nil && now.Operation == was.Operation
	if was.Verb != rollout.VerbDrain || sameOperation {
		return
	}
	if err := e.cfg.Member.Driver().CancelDrain(ctx); err != nil {
		e.cfg.Log.Warn("return to service did not succeed", "operation", was.Operation, "error", err)
	}
}

// regained reports that a drained member leads again although it was to hand over (R86). A state
// seen before the drain ended does not count.
func (e *Executor) regained(o Order, r Result) bool {
	s := e.cfg.Member.State()
	e.mu.Lock()
	ended := e.ended // not r.At: the wall clock may be set meanwhile
	e.mu.Unlock()
	return !s.At.Before(ended) && o.Verb == rollout.VerbDrain && r.State == rollout.StepDone && o.ExpectedLeader == e.cfg.Slot &&
		s.Known && s.View.Role == driver.RoleLeader && s.View.Leader == e.cfg.Slot
}

// start begins order; before is its earlier result when leadership came back.
func (e *Executor) start(ctx context.Context, order Order, before Result) *running {
	ctx, cancel := context.WithCancelCause(ctx)
	if order.Limit > 0 {
		order.Deadline = time.Now().Add(order.Limit)
	}
	r := &running{order: order, cancel: cancel, done: make(chan struct{})}
	s := &step{exec: e, order: order, again: before.State != "", transferred: before.Transferred, newLeader: before.NewLeader}
	e.cfg.Log.Info("order begun", "operation", order.Operation, "verb", order.Verb, "attempt", order.Attempt)
	e.setCurrent(order, rollout.StepRunning, "")
	e.cfg.Member.SetActive(true)
	go func() {
		defer close(r.done)
		defer cancel(nil)
		if result, ended := s.run(ctx); ended {
			e.finish(result)
		}
	}()
	return r
}

// finish publishes a result together with the state after it: no reader sees one without the other.
func (e *Executor) finish(r Result) {
	e.mu.Lock()
	e.current = nil
	e.ended = time.Now()
	_ = e.results.put(r) // the disk reports its faults
	e.status.Update(func(s Status) Status {
		s.State = stateAfter(r)
		s.Result = &r
		return s
	})
	e.mu.Unlock()
	e.cfg.Log.Info("order ended", "operation", r.Operation, "verb", r.Verb, "attempt", r.Attempt,
		"state", r.State, "transferred", r.Transferred, "leader", r.NewLeader, "reason", r.Message)
}

func (e *Executor) setCurrent(o Order, state rollout.StepState, message string) {
	e.mu.Lock()
	e.current = &Result{Key: o.Key, State: state, Message: message, At: time.Now().UTC()}
	e.mu.Unlock()
	e.status.Set(Status{State: stateDuring(o.Verb), Operation: &o.Key, Deadline: o.Deadline})
}
