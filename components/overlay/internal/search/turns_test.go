package search

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"cadre.dev/overlay/internal/link"
	"cadre.dev/raced/synctest"
)

func no() bool  { return false }
func yes() bool { return true }

func TestSearchesAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, all = 4, 40
		turn := newTurns(places)
		var mu sync.Mutex
		running, most := 0, 0
		var wg sync.WaitGroup
		for range all {
			wg.Go(func() {
				if err := turn.take(t.Context(), no); err != nil {
					t.Error(err)
					return
				}
				defer turn.give()
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				<-time.After(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
			})
		}
		begin := time.Now()
		wg.Wait()
		if most != places {
			t.Errorf("%d ran at once, want %d", most, places)
		}
		if took := time.Since(begin); took != all/places*time.Second {
			t.Errorf("took %v, want no place left empty", took)
		}
	})
}

// The oldest search is next. Urgent searches go before it, until it has waited long
// enough to go before them.
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := newTurns(1)
		if err := turn.take(t.Context(), no); err != nil {
			t.Fatal(err)
		}
		var order []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		ask := func(name string, urgent func() bool) {
			wg.Go(func() {
				if turn.take(t.Context(), urgent) == nil {
					mu.Lock()
					order = append(order, name)
					mu.Unlock()
					turn.give()
				}
			})
			synctest.Wait()
		}
		traffic := false
		ask("very old", no)
		<-time.After(urgentLead + time.Second)
		ask("old", no)
		ask("gets traffic", func() bool { return traffic })
		<-time.After(time.Second)
		ask("young", no)
		ask("control", yes)
		traffic = true
		turn.give()
		wg.Wait()
		if want := []string{"very old", "gets traffic", "control", "old", "young"}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
	})
}

func TestGivenUpTurnsGoToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := newTurns(1)
		if err := turn.take(t.Context(), no); err != nil {
			t.Fatal(err)
		}
		why := errors.New("the link ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := turn.take(ctx, no); !errors.Is(err, why) {
				t.Errorf("error %v, want %v", err, why)
			}
		})
		synctest.Wait()
		cancel(why)
		wg.Wait()
		wg.Go(func() {
			if err := turn.take(t.Context(), no); err != nil {
				t.Error(err)
			}
		})
		turn.give()
		wg.Wait()
		if turn.free != 0 || len(turn.waiting) != 0 {
			t.Errorf("%d free and %d waiting, want none", turn.free, len(turn.waiting))
		}
	})
}

func TestSearchesOfALinkAreSpaced(t *testing.T) {
	mine, theirs := wanted{Find: link.Find{Boot: "a", Controlling: true}}, wanted{Find: link.Find{Boot: "a"}}
	now := time.Unix(1000, 0)
	var g gap
	if got := g.wait(mine, now, 0.5); got > 0 {
		t.Errorf("the first waits %v", got)
	}
	g = g.begin(mine, now)
	for _, least := range []time.Duration{gapMin, 2 * gapMin, 4 * gapMin, gapMax, gapMax} {
		for _, jitter := range []float64{0, 0.999} {
			if got := g.wait(mine, now, jitter); got < least/2 || got > least {
				t.Errorf("waits %v, want %v to %v", got, least/2, least)
			}
		}
		g = g.end(false)
	}
	if got := g.wait(theirs, now, 0.999); got > followGap {
		t.Errorf("a search of the peer's waits %v, at most %v", got, followGap)
	}
	if got := g.wait(wanted{Find: link.Find{Boot: "b", Controlling: true}}, now, 0.5); got > 0 {
		t.Errorf("the first for another boot waits %v", got)
	}
	if got := g.end(true).wait(mine, now, 0.999); got > gapMin {
		t.Errorf("after a direct path it waits %v, at most %v", got, gapMin)
	}
	if got := g.wait(mine, now.Add(gapMax), 0.999); got > 0 {
		t.Errorf("waits %v when the time is over", got)
	}
}
