package agent

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"cadre.dev/agent/internal/envoy"
	"cadre.dev/raced/synctest"
)

// TestLooksAreShared: however many routes ask, the Envoy is asked once for all that an answer
// is fresh enough for.
func TestLooksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes, age = 3 * time.Millisecond, 5 * time.Millisecond
		asked := map[string]int{}
		l := looks{ask: func(_ context.Context, proxy string) ([]envoy.Cluster, error) {
			asked[proxy]++
			time.Sleep(takes)
			return []envoy.Cluster{{Name: proxy}}, nil
		}}
		all := func() {
			t.Helper()
			var asking sync.WaitGroup
			for range 20 {
				asking.Go(func() {
					if got, err := l.clusters(t.Context(), "web", age); err != nil || len(got) != 1 || got[0].Name != "web" {
						t.Errorf("got %v, %v", got, err)
					}
				})
			}
			asking.Wait()
		}
		all() // at once: the look is under way
		all() // and over, for a while
		if asked["web"] != 1 {
			t.Errorf("asked %v, want once", asked)
		}
		time.Sleep(age)
		all()
		if asked["web"] != 2 {
			t.Errorf("asked %v, want twice: the answer is too old", asked)
		}
		if got, err := l.clusters(t.Context(), "db", age); err != nil || got[0].Name != "db" || asked["db"] != 1 {
			t.Errorf("of another proxy: %v, %v", got, err)
		}
	})
}

// TestALookOutlivesItsCaller, since others wait for it.
func TestALookOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := looks{ask: func(ctx context.Context, _ string) ([]envoy.Cluster, error) {
			time.Sleep(time.Second)
			return nil, ctx.Err()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		other := make(chan error)
		go func() {
			_, err := l.clusters(ctx, "web", time.Minute)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it waited on: %v", err)
			}
			_, err = l.clusters(t.Context(), "web", time.Minute)
			other <- err
		}()
		if err := <-other; err != nil {
			t.Errorf("the other: %v", err)
		}
	})
}
