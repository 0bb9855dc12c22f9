package latestvalue

import (
	"context"
	"sync"
)

// Value is safe for concurrent use. The zero Value holds the zero T at index 0.
type Value[T any] struct {
	mu      sync.Mutex
	value   T             // guarded by mu
	index   uint64        // guarded by mu
	changed chan struct{} // guarded by mu; closed and replaced by Set
}

// Set replaces the value and wakes all waiters.
func (v *Value[T]) Set(value T) {
	v.Update(func(T) T { return value })
}

// Update replaces the value by f of it, as one step. f must not use v.
func (v *Value[T]) Update(f func(T) T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.value = f(v.value)
	v.index++
	if v.changed != nil {
		close(v.changed)
		v.changed = nil
	}
}

// Get returns the value and its index, which grows with each Set.
func (v *Value[T]) Get() (T, uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value, v.index
}

// Changed returns a channel that is closed once the index differs from index.
func (v *Value[T]) Changed(index uint64) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.index != index {
		return closed
	}
	if v.changed == nil {
		v.changed = make(chan struct{})
	}
	return v.changed
}

// Wait returns the value once its index differs from index, or when ctx ends
// (then with ctx's cause).
func (v *Value[T]) Wait(ctx context.Context, index uint64) (T, uint64, error) {
	select {
	case <-v.Changed(index):
		value, now := v.Get()
		return value, now, nil
	case <-ctx.Done():
		value, now := v.Get()
		return value, now, context.Cause(ctx)
	}
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
