package world

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Each calls f for 0 to n-1, at most parallel at once, and gives the first error;
// after one no further call begins.
func Each(parallel, n int, f func(int) error) error {
	var (
		next   atomic.Int64
		failed atomic.Pointer[error]
		all    sync.WaitGroup
	)
	for range min(parallel, n) {
		all.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return errors.Join(*err)
	}
	return nil
}
