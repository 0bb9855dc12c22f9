package mailbox

import (
	"context"
	"sync"
	"time"
)

const (
	// paceMin and paceMax bound what a server may advise as the time between two
	// requests.
	paceMin = 20 * time.Millisecond
	paceMax = 2 * time.Second
	// paceCredit is how many requests may go out at once after a pause of as many
	// intervals: a search has several things to say within moments.
	paceCredit = 8
	// paceFor is how long after the last refusal requests are spaced. Then the server
	// has saved up what it allows at once, which it does not tell.
	paceFor = time.Minute
)

// pacer spaces the requests of one connection once its server has refused one for
// coming too soon. They go out in the order in which they came: without it each of
// many would try again by itself, and luck would decide which is late.
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
	// Those that wait for a channel are served in order, and who goes leaves no gap.
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

// claim takes the place of one request, or tells how long there is none.
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

// slow follows a refusal; advice is what the server says, 0 for nothing.
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
