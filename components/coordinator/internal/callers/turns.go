package callers

import (
	"context"
	"slices"
	"sync"
)

// turns bounds a concurrent activity. Callers wait in one lane per source, and the lanes take
// turns, so that a crowd from one source does not delay another source. Safe for concurrent use.
type turns struct {
	mu    sync.Mutex
	free  int                        // guarded by mu
	lanes map[string][]chan struct{} // guarded by mu; no lane is empty
	order []string                   // guarded by mu; the lanes, next first
}

func newTurns(n int) *turns { return &turns{free: n, lanes: map[string][]chan struct{}{}} }

// enter waits for a turn; false: ctx ended before. After true the caller calls leave.
func (t *turns) enter(ctx context.Context, lane string) bool {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	if t.lanes[lane] = append(t.lanes[lane], turn); len(t.lanes[lane]) == 1 {
		t.order = append(t.order, lane)
	}
	t.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	}
	if !t.giveUp(lane, turn) {
		t.leave() // the turn came just now
	}
	return false
}

// giveUp leaves a lane; false: the turn has come.
func (t *turns) giveUp(lane string, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.lanes[lane], turn)
	if i < 0 {
		return false
	}
	if t.lanes[lane] = slices.Delete(t.lanes[lane], i, i+1); len(t.lanes[lane]) == 0 {
		delete(t.lanes, lane)
		t.order = slices.DeleteFunc(t.order, func(l string) bool { return l == lane })
	}
	return true
}

// leave passes the turn to the next lane.
func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.free++
		return
	}
	lane := t.order[0]
	t.order = t.order[1:]
	turn := t.lanes[lane][0]
	if t.lanes[lane] = t.lanes[lane][1:]; len(t.lanes[lane]) > 0 {
		t.order = append(t.order, lane)
	} else {
		delete(t.lanes, lane)
	}
	close(turn)
}
