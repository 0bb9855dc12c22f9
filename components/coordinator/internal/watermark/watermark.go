package watermark

import (
	"context"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// Agents returns the watermarks of the agents.
type Agents interface{ HighWater() reports.HighWater }

// Watermark raises the recorded state and keeps the highest one seen. Safe for concurrent use.
type Watermark struct {
	store  store.Store
	agents Agents
	now    func() time.Time

	// turn serialises growths: each depends on the previous one.
	turn chan struct{}

	mu sync.Mutex
	// waiting are the growths that wait, in order; guarded by mu.
	waiting []*growth
	seen    uint64    // guarded by mu; highest state that this process wrote or read
	term    uint64    // guarded by mu; highest Term seen by Follow
	grew    time.Time // guarded by mu; time of its last write
	// passed is the coordinators' elapsed time at passedAt, and zero the last result of Zero;
	// guarded by mu.
	passed   time.Duration
	passedAt time.Time
	zero     time.Time
}

// New returns a Watermark for the records in s.
func New(s store.Store, agents Agents, now func() time.Time) *Watermark {
	return &Watermark{store: s, agents: agents, now: now, turn: make(chan struct{}, 1), passedAt: time.Now()}
}

// Follow records the states of the changing records until ctx ends, so that a standby knows them as
// well.
func (r *Watermark) Follow(ctx context.Context, views *view.Watcher) error {
	for {
		v, changed := views.Latest()
		if v != nil {
			r.Saw(v.State)
			r.Elapsed(v.Elapsed)
			r.mu.Lock()
			r.term = max(r.term, v.Term)
			r.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// Saw records a state that was read from the records.
func (r *Watermark) Saw(state uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = max(r.seen, state)
}

// Seen returns the highest state that this process or most of the agents have seen. Records that
// are read afterwards and have a lower one went back.
func (r *Watermark) Seen() uint64 {
	most := r.agents.HighWater().Most.State
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.seen, most)
}

// Idle returns the time since this process last wrote a state.
func (r *Watermark) Idle() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now().Sub(r.grew).Abs()
}
