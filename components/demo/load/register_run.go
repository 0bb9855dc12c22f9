package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// RegisterConfig of Registers.
type RegisterConfig struct {
	Clients int
	// Keys is the number of registers.
	Keys int
	// Interval is the time from one operation's start to the client's next one,
	// unless the operation takes longer.
	Interval time.Duration
	// Deadline of one operation. etcd drops the open requests at a leader change and reports that
	// only after seven seconds, so a client needs its own deadline.
	Deadline time.Duration
}

const (
	// after turnAfter operations a client changes to the next member, so that every member is
	// queried all the time.
	turnAfter = 50
	// watchEvery is how often the members are asked who leads.
	watchEvery = 100 * time.Millisecond
	// finalDeadline of each read at the end of a run.
	finalDeadline = 5 * time.Second
)

// Registers drives a RegisterStore with reads, puts and swaps. Run it once.
type Registers struct {
	cfg     RegisterConfig
	store   RegisterStore
	history *History
	began   time.Time
	nextID  atomic.Int64
	// latest holds the newest value that any client saw, so that swaps often succeed.
	latest []atomic.Int64
}

// NewRegisters returns a load that records in history. Its clock starts now.
func NewRegisters(cfg RegisterConfig, store RegisterStore, history *History) *Registers {
	return &Registers{cfg: cfg, store: store, history: history, began: time.Now(), latest: make([]atomic.Int64, cfg.Keys)}
}

// Began is when the run's clock started.
func (r *Registers) Began() time.Time { return r.began }

// Run works until ctx ends. Operations under way are then finished and recorded,
// and every register is read once more through every member.
func (r *Registers) Run(ctx context.Context) {
	var running sync.WaitGroup
	for id := range r.cfg.Clients {
		running.Go(func() { r.client(ctx, id) })
	}
	running.Go(func() { r.watchLeader(ctx) })
	running.Wait()
	for key := range r.cfg.Keys {
		for member := range r.store.Members() {
			r.do(ctx, member, RegisterOp{Client: r.cfg.Clients, Key: key, Kind: RegisterRead}, finalDeadline)
		}
	}
}

func (r *Registers) client(ctx context.Context, id int) {
	members := len(r.store.Members())
	member := id % members
	ticker := time.NewTicker(r.cfg.Interval)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		answered := r.do(ctx, member, r.next(id), r.cfg.Deadline)
		if !answered || n%turnAfter == 0 {
			member = (member + 1) % members
		}
	}
}

// next picks a client's next operation.
func (r *Registers) next(client int) RegisterOp {
	op := RegisterOp{Client: client, Key: rand.IntN(r.cfg.Keys)} //nolint:gosec // a choice, no secret
	switch n := rand.IntN(10); {                                 //nolint:gosec // a choice, no secret
	case n < 4:
		op.Kind = RegisterRead
	case n < 7:
		op.Kind = RegisterPut
	default:
		op.Kind, op.Expect = RegisterSwap, r.latest[op.Key].Load()
	}
	return op
}

// do carries op out, records it, and reports whether it was answered.
func (r *Registers) do(ctx context.Context, member int, op RegisterOp, deadline time.Duration) bool {
	// The operation outlives a stop, so that its outcome is known and recorded.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	defer cancel()
	op.ID, op.Member = r.nextID.Add(1), r.store.Members()[member]
	op.Call = int64(time.Since(r.began))
	answer, err := r.store.Do(ctx, member, op)
	op.Return = int64(time.Since(r.began))
	if err != nil {
		op.Unknown, op.Error = true, registerErrorClass(err)
		r.history.Add(op)
		return false
	}
	op.Value, op.Swapped = answer.Value, answer.Swapped
	if op.wrote() {
		r.latest[op.Key].Store(op.ID)
	} else {
		r.latest[op.Key].Store(op.Value)
	}
	r.history.Add(op)
	r.history.sawTerm(answer.Term, "", time.Now())
	return true
}

// registerErrorClass lets a store say how its errors are counted.
func registerErrorClass(err error) string {
	var told interface{ Class() string }
	if errors.As(err, &told) {
		return told.Class()
	}
	return errorClass(err)
}

// watchLeader notes who leads, as each member says about itself.
func (r *Registers) watchLeader(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for member, name := range r.store.Members() {
		asking.Go(func() {
			ticker := time.NewTicker(watchEvery)
			defer ticker.Stop()
			for {
				r.askLeader(ctx, member, name)
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
			}
		})
	}
}

func (r *Registers) askLeader(ctx context.Context, member int, name string) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Deadline)
	defer cancel()
	term, leads, err := r.store.Leader(ctx, member)
	if err == nil && leads {
		r.history.sawTerm(term, name, time.Now())
	}
}
