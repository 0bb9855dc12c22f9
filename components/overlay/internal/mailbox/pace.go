package mailbox

import (
	"context"
	"sync"
	"time"
)

const (
	// paceMin and paceMax bound the server's advised time between two requests.
	paceMin = 20 * time.Millisecond
	paceMax = 2 * time.Second
	// paceCredit is how many requests may go out at once after a pause of as many
	// intervals: a search has several things to say within moments.
	paceCredit = 8
	// paceFor is the time after the last refusal for which requests are spaced. After
	// that time the server's bucket is full again; the server does not announce its size.
	paceFor = time.Minute
)

// pacer spaces the requests of one connection once its server has refused one for coming
// too soon. The requests go out in the order of their arrival. Without the pacer, each
// request would retry alone, and chance would decide which one is late.
type pacer struct {
	turn chan struct{} // held by the request that goes out next

	mu      sync.Mutex
	every   time.Duration // 0 before the first refusal
	next    time.Time     // when the next may go out
	refused time.Time
}

func newPacer() *pacer { return &pacer{turn: make(chan struct{}, 1)} }

// wait returns when a request may be made, or false because ctx ended.
func (p *pacer) wait(ctx context.Context) bool {
	if !p.paced(time.Now()) {
		return true
	}
	// A channel serves its waiters in order, and a waiter that leaves makes no gap.
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-p.turn }()
	for {
		d := p.claim(time.Now())
		if d <= 0 {
			return true
		}
		if !sleep(ctx, d) {
			return false
		}
	}
}

// claim takes the place of one request, or returns the time until there is one.
func (p *pacer) claim(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if oldest := now.Add(-paceCredit * p.every); p.next.Before(oldest) {
		p.next = oldest
	}
	if d := p.next.Sub(now); d > 0 {
		return d
	}
	p.next = p.next.Add(p.every)
	return 0
}

func (p *pacer) paced(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.every > 0 && now.Sub(p.refused) < paceFor
}

// slow follows a refusal; advice is the server's advised pause, 0 for none.
func (p *pacer) slow(advice time.Duration) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.every = min(max(advice, paceMin), paceMax)
	// A little slower than allowed, or every other request would be refused.
	p.every += p.every / 16
	p.refused = now
	if later := now.Add(p.every); p.next.Before(later) {
		p.next = later
	}
}
