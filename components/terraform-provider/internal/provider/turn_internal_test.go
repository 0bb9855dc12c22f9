package provider

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
)

// order lets each of several do its work in its turn, and gives the order.
type order struct {
	mu   sync.Mutex
	done []string
}

func (o *order) note(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = append(o.done, name)
}

// TestAYieldingCallerGoesLast: after the waiting callers and the callers that come soon after. given is
// false without any.
func TestAYieldingCallerGoesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, o := newTurn(), &order{}
		var all sync.WaitGroup
		all.Go(func() {
			if err := line.take(t.Context()); err != nil {
				t.Error(err)
			}
			if given, err := line.yield(t.Context(), time.Second); !given || err != nil {
				t.Error("nobody came, or", err)
			}
			o.note("leader")
			if given, err := line.yield(t.Context(), time.Second); given || err != nil {
				t.Error("somebody came, or", err)
			}
			line.pass()
		})
		synctest.Wait()
		for _, name := range []string{"one", "two"} {
			time.Sleep(time.Second / 4)
			all.Go(func() {
				if err := line.take(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				o.note(name)
				line.pass()
			})
		}
		all.Wait()
		if want := []string{"one", "two", "leader"}; !slices.Equal(o.done, want) {
			t.Errorf("they went %v, want %v", o.done, want)
		}
	})
}

// TestACallerThatGivesUpBlocksNoOther: the callers behind continue.
func TestACallerThatGivesUpBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := newTurn()
		if err := line.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if err := line.take(gone); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := line.take(t.Context()); err != nil {
				t.Error(err)
			}
			line.pass()
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		line.pass()
		all.Wait()

		if err := line.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := line.yield(gone, time.Hour); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := line.take(t.Context()); err != nil {
			t.Error("the turn is lost:", err)
		}
	})
}
