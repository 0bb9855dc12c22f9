package watermark

import (
	"context"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// Marks tells what agents have seen of the records.
type Marks interface{ Marks() reports.Marks }

// Ratchet is safe for concurrent use.
type Ratchet struct {
	store  store.Store
	agents Marks
	now    func() time.Time

	// turn is had by the one growth at a time: each follows from the one before.
	turn chan struct{}

	mu sync.Mutex
	// waiting are those who want to grow it, in their order; guarded by mu.
	waiting []*growth
	seen    uint64    // guarded by mu; highest state that this process wrote or read
	term    uint64    // guarded by mu; highest Term that it followed
	grew    time.Time // guarded by mu; when it wrote one last
	// passed is the time that had elapsed for the coordinators at passedAt, and zero what Zero
	// gave last; guarded by mu.
	passed   time.Duration
	passedAt time.Time
	zero     time.Time
}

// New makes a Ratchet on the records in s.
func New(s store.Store, agents Marks, now func() time.Time) *Ratchet {
	return &Ratchet{store: s, agents: agents, now: now, turn: make(chan struct{}, 1), passedAt: time.Now()}
}

// Follow remembers what the records say as they change, so that a coordinator that does not
// lead knows it as well, until ctx ends.
func (r *Ratchet) Follow(ctx context.Context, views *view.Watcher) error {
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

// Saw notes a state that was read of the records.
func (r *Ratchet) Saw(state uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = max(r.seen, state)
}

// Seen is the highest state that this process or most of the agents have seen. Records
// that are read afterwards and say less went back.
func (r *Ratchet) Seen() uint64 {
	most := r.agents.Marks().Most.State
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.seen, most)
}

// Idle is how long ago this process wrote a state.
func (r *Ratchet) Idle() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now().Sub(r.grew).Abs()
}
