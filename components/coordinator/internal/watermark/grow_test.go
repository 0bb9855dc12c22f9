package watermark_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/watermark"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// slow holds commits up until release, and counts them.
type slow struct {
	store.Store
	entered, release chan struct{}

	mu   sync.Mutex
	made int
}

func (s *slow) Commit(ctx context.Context, ops ...store.Op) error {
	s.entered <- struct{}{}
	<-s.release
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return s.Store.Commit(ctx, ops...)
}

// TestWaitingCallersGrowTogether: they share one transaction, and a growth with a stale record delays
// no other.
func TestWaitingCallersGrowTogether(t *testing.T) {
	for name, c := range map[string]struct {
		bad            int // index of the conflicting growth; -1: none
		commits, state uint64
	}{
		"all well":           {-1, 2, 2},
		"one of them is not": {3, 2 + 5, 1 + 4},
	} {
		t.Run(name, func(t *testing.T) {
			memory := storetest.NewMemory()
			lease := lead(t, memory)
			s := &slow{Store: memory, entered: make(chan struct{}), release: make(chan struct{})}
			r := watermark.New(s, &saw{}, time.Now)
			errs := make([]error, 6)
			var all sync.WaitGroup
			grow := func(n int) {
				op := store.Op{Kind: store.OpPutCAS, Key: store.GroupStatusKey(fmt.Sprint("g", n)), Value: []byte("{}")}
				if n == c.bad {
					op.Index = 99
				}
				all.Go(func() { errs[n] = r.Grow(t.Context(), lease, op) })
			}
			grow(0)
			<-s.entered // the others come during the write
			for n := 1; n < len(errs); n++ {
				grow(n)
			}
			for r.Waiting() < len(errs)-1 {
				runtime.Gosched()
			}
			go func() {
				for range s.entered { // from here on no commit is held up
				}
			}()
			close(s.release)
			all.Wait()
			close(s.entered)
			for n, err := range errs {
				if bad := n == c.bad; bad != errors.Is(err, store.ErrConflict) || !bad && err != nil {
					t.Errorf("%d: %v", n, err)
				}
			}
			if got := stateOf(t, memory); got != c.state || uint64(s.made) != c.commits {
				t.Errorf("state %d after %d transactions, want %d after %d", got, s.made, c.state, c.commits)
			}
		})
	}
}

func TestACallerThatGivesUpGrowsNothing(t *testing.T) {
	memory := storetest.NewMemory()
	lease := lead(t, memory)
	s := &slow{Store: memory, entered: make(chan struct{}), release: make(chan struct{})}
	r := watermark.New(s, &saw{}, time.Now)
	var first sync.WaitGroup
	first.Go(func() { _ = r.Grow(t.Context(), lease) })
	<-s.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Grow(ctx, lease); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(s.release)
	first.Wait()
	if got := stateOf(t, memory); got != 1 || r.Waiting() != 0 {
		t.Errorf("state %d, %d wait", got, r.Waiting())
	}
}
