package mailbox

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
)

// bucket is how a rendezvous counts requests.
type bucket struct {
	tokens, most, perSecond float64
	at                      time.Time
	refused                 int
}

func (b *bucket) take() bool {
	now := time.Now()
	b.tokens = min(b.most, b.tokens+now.Sub(b.at).Seconds()*b.perSecond)
	b.at = now
	if b.tokens < 1 {
		b.refused++
		return false
	}
	b.tokens--
	return true
}

// TestRequestsFollowTheServersPace: many at once are late, and cost few refusals.
func TestRequestsFollowTheServersPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests, burst, perSecond = 264, 64, 20
		p := newPacer()
		b := &bucket{tokens: burst, most: burst, perSecond: perSecond, at: time.Now()}
		begin := time.Now()
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range requests {
			wg.Go(func() {
				for p.wait(t.Context()) {
					mu.Lock()
					ok := b.take()
					mu.Unlock()
					if ok {
						return
					}
					p.slow(time.Second / perSecond)
				}
			})
		}
		wg.Wait()
		// Requests that were under way at the first refusal are refused too.
		if most := requests - burst + 4; b.refused > most {
			t.Errorf("%d refusals for %d requests, at most %d", b.refused, requests, most)
		}
		if took, most := time.Since(begin), 12*time.Second; took > most {
			t.Errorf("%d requests at %d/s took %v, at most %v", requests, perSecond, took, most)
		}
		<-time.After(paceFor)
		before := b.refused
		for range burst {
			if !p.wait(t.Context()) || !b.take() {
				t.Fatal("after a pause a burst is not served")
			}
		}
		if b.refused != before {
			t.Error("the server's full bucket is not used")
		}
	})
}

// Paced requests keep their order, and a request that is given up takes no place.
func TestPacedRequestsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer()
		p.slow(time.Second)
		gone, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		var mu sync.Mutex
		var got []int
		var wg sync.WaitGroup
		for i := range 6 {
			ctx := t.Context()
			if i%2 == 1 {
				ctx = gone
			}
			wg.Go(func() {
				if p.wait(ctx) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, i)
				}
			})
			synctest.Wait()
		}
		cancel()
		wg.Wait()
		if !slices.Equal(got, []int{0, 2, 4}) {
			t.Errorf("requests went out as %v", got)
		}
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("three requests at one a second took %v", took)
		}
	})
}
