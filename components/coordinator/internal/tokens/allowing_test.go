package tokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"cadre.dev/raced/synctest"
)

// TestWaitingCallersAreAllowedTogether: callers during a write share the next one, and each
// successful caller's name is in some write.
func TestWaitingCallersAreAllowedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, writes, release := newAllowing(), [][]string(nil), make(chan error)
		var all sync.WaitGroup
		errs := make([]error, 6)
		ask := func(n int) {
			name := fmt.Sprint("g", n)
			all.Go(func() {
				errs[n] = a.allow(t.Context(), name, func(others []string) error {
					err := <-release
					if err == nil {
						writes = append(writes, append([]string{name}, others...))
					}
					return err
				})
			})
			synctest.Wait()
		}
		for n := range 4 {
			ask(n)
		}
		release <- nil // g0 alone
		synctest.Wait()
		ask(4)
		failed := errors.New("no leader")
		release <- failed // one of g1 to g3, for all of them
		synctest.Wait()
		ask(5)
		close(release)
		all.Wait()
		written, lost := map[string]bool{}, 0
		for _, names := range writes {
			for _, name := range names {
				written[name] = true
			}
		}
		for n, err := range errs {
			if name := fmt.Sprint("g", n); err == nil && !written[name] {
				t.Errorf("%s is allowed according to the answer", name)
			}
			if errors.Is(err, failed) {
				lost++
			}
		}
		if lost != 1 || len(writes) != 3 || !slices.Equal(writes[0], []string{"g0"}) {
			t.Errorf("%d failed, written %v", lost, writes)
		}
	})
}

func TestACallerThatGivesUpBlocksNoOther(t *testing.T) {
	a := newAllowing()
	ctx, cancel := context.WithCancel(t.Context())
	err := a.allow(t.Context(), "one", func([]string) error {
		cancel()
		return a.allow(ctx, "two", func([]string) error { return nil })
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := a.allow(t.Context(), "three", func([]string) error { return nil }); err != nil {
		t.Error(err)
	}
}

// TestAFailureIsReturnedToAllCallersOfOneName: a failed write fails its caller. Another caller with the same
// name retries.
func TestAFailureIsReturnedToAllCallersOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, begin, release := newAllowing(), make(chan error), make(chan error)
		var all sync.WaitGroup
		writes := 0
		ask := func() {
			all.Go(func() {
				_ = a.allow(t.Context(), "one", func([]string) error {
					writes++
					return <-release
				})
			})
		}
		all.Go(func() { _ = a.allow(t.Context(), "zero", func([]string) error { return <-begin }) })
		synctest.Wait()
		ask()
		ask()
		synctest.Wait()
		begin <- nil
		synctest.Wait()
		release <- errors.New("no leader")
		synctest.Wait()
		if writes != 2 {
			t.Errorf("written %d times, want twice: no write has included it yet", writes)
		}
		close(release)
		all.Wait()
	})
}
