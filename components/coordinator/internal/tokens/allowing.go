package tokens

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// allowing gives operators the right to write the specs of new groups. Their one policy names
// every group and is written as a whole, so that all who wait while it is written go into the
// next one together. Safe for concurrent use.
type allowing struct {
	turn chan struct{} // capacity 1: had by the one who writes

	mu sync.Mutex
	// waiting are names that whoever asks for them may have; guarded by mu.
	waiting map[string]struct{}
}

func newAllowing() *allowing {
	return &allowing{turn: make(chan struct{}, 1), waiting: map[string]struct{}{}}
}

// allow returns when the policy names the group. write writes it with this name and others.
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
		return nil // somebody wrote it together with theirs
	}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(taken)), func(one string) bool { return one == name })
	err := write(others)
	if err != nil {
		// The others try for themselves, and so does whoever else waits for this name.
		a.mu.Lock()
		maps.Copy(a.waiting, taken)
		a.mu.Unlock()
	}
	return err
}
