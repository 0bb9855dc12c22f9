package provider

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turn belongs to one caller at a time. Safe for concurrent use.
type turn struct {
	mu    sync.Mutex
	taken bool // guarded by mu
	// next wait for it in their order, and last go after all of those; guarded by mu. A
	// channel is closed when its owner has the turn.
	next, last []chan struct{}
	came       chan struct{} // capacity 1: a caller began to wait
}

func newTurn() *turn { return &turn{came: make(chan struct{}, 1)} }

// take waits for the turn. An error: ctx ended, and the turn is not the caller's.
func (t *turn) take(ctx context.Context) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.next = append(t.next, mine)
	t.mu.Unlock()
	select {
	case t.came <- struct{}{}:
	default:
	}
	return t.await(ctx, mine)
}

func (t *turn) await(ctx context.Context, mine chan struct{}) error {
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	is := func(c chan struct{}) bool { return c == mine }
	if !slices.ContainsFunc(t.next, is) && !slices.ContainsFunc(t.last, is) {
		t.passLocked() // it was given at this moment
	}
	t.next, t.last = slices.DeleteFunc(t.next, is), slices.DeleteFunc(t.last, is)
	return context.Cause(ctx)
}

// pass gives the turn to the next one.
func (t *turn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passLocked()
}

func (t *turn) passLocked() {
	line := &t.next
	if len(*line) == 0 {
		line = &t.last
	}
	if len(*line) == 0 {
		t.taken = false
		return
	}
	close((*line)[0])
	*line = (*line)[1:]
}

// yield lets all callers go first that wait, or come within grace, and takes the turn again after
// them. given is false when no caller came. An error: ctx ended, and the turn is lost.
func (t *turn) yield(ctx context.Context, grace time.Duration) (given bool, err error) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		t.mu.Lock()
		if len(t.next) > 0 {
			mine := make(chan struct{})
			t.last = append(t.last, mine)
			t.passLocked()
			t.mu.Unlock()
			return true, t.await(ctx, mine)
		}
		t.mu.Unlock()
		select {
		case <-t.came:
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			t.pass()
			return false, context.Cause(ctx)
		}
	}
}
