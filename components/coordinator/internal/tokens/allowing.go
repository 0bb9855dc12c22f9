package tokens

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// allowing lets operators write the specs of new groups. One policy names every group and is
// written as a whole, so all callers that wait during a write share the next write. Safe for
// concurrent use.
type allowing struct {
	turn chan struct{} // capacity 1: taken by the writer

	mu sync.Mutex
	// waiting are names that any writer may include; guarded by mu.
	waiting map[string]struct{}
}

func newAllowing() *allowing {
	return &allowing{turn: make(chan struct{}, 1), waiting: map[string]struct{}{}}
}

// allow returns when the policy names the group. write writes the policy with this name and others.
func (a *allowing) allow(ctx context.Context, name string, write func(others []string) error) error {
	a.mu.Lock()
	a.waiting[name] = struct{}{}
	a.mu.Unlock()
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	a.mu.Lock()
	_, waits := a.waiting[name]
	taken := a.waiting
	if waits {
		a.waiting = map[string]struct{}{}
	}
	a.mu.Unlock()
	if !waits {
		return nil // another caller wrote it together with its own
	}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(taken)), func(one string) bool { return one == name })
	err := write(others)
	if err != nil {
		// The other waiting callers retry, each for its own name.
		a.mu.Lock()
		maps.Copy(a.waiting, taken)
		a.mu.Unlock()
	}
	return err
}
