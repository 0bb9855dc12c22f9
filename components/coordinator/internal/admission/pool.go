package admission

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// laneLength bounds the callers that wait for one Slot, and queueLength those of all Slots.
	laneLength  = 32
	queueLength = 1024
	// queueWait bounds the wait of one caller: an agent gives an exchange 30 s.
	queueWait = 10 * time.Second
	// rememberFor is how long a rejected caller keeps its place after its retry delay;
	// maxRemembered bounds the number of these callers.
	rememberFor   = 5 * time.Second
	maxRemembered = 16 << 10
)

// pool bounds the concurrent work that unauthenticated callers can cause: the verification of
// evidence (one place per processor), the calls to a second verifier, and the calls that read the
// store. Waiting callers queue in one lane per Slot, and the lanes take turns, so junk about one
// Slot does not delay the others. A lane is first come, first served, and a full lane rejects its
// latest caller. A rejected Boot that returns keeps the time of its first request. A flood of new
// callers thus cannot keep out a Boot that retries (INP-06).
type pool struct {
	size int
	now  func() time.Time

	mu    sync.Mutex
	free  int               // guarded by mu
	lanes map[string][]*job // guarded by mu; each in the order of since
	turns []string          // guarded by mu; lanes with waiting callers, next first
	count int               // guarded by mu; of the waiting callers
	spent time.Duration     // guarded by mu; moving average of one piece of work
	away  map[string]place  // guarded by mu; rejected callers, by key
	swept time.Time         // guarded by mu; when away was last cleared of expired places
}

type job struct {
	key   string
	since time.Time
	start chan bool // capacity 1; false: rejected
}

// place of a caller that was rejected.
type place struct {
	since, until time.Time
}

func newPool(size int, now func() time.Time) *pool {
	return &pool{size: size, now: now, free: size, lanes: map[string][]*job{}, spent: 5 * time.Millisecond, away: map[string]place{}}
}

// enter waits for a place in lane for the Boot called key; the caller calls done when the work is
// done.
func (p *pool) enter(ctx context.Context, lane, key string) (done func(), refused *refusal) {
	j, in := p.join(lane, key)
	if !in {
		limit := time.NewTimer(queueWait)
		defer limit.Stop()
		select {
		case in = <-j.start:
		case <-ctx.Done():
		case <-limit.C:
		}
	}
	if !in && !p.leave(lane, j) {
		return nil, refuse(codeOverloaded, "too many requests at once; try again").later().in(p.turnAway(j))
	}
	began := time.Now()
	return func() { p.leaveWork(time.Since(began)) }, nil
}

// join takes a free place or joins the queue.
func (p *pool) join(lane, key string) (j *job, in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j = &job{key: key, since: p.now(), start: make(chan bool, 1)}
	if before, ok := p.away[key]; ok {
		j.since = before.since
		delete(p.away, key)
	}
	if p.free > 0 && p.count == 0 {
		p.free--
		return j, true
	}
	if len(p.lanes[lane]) == 0 {
		p.turns = append(p.turns, lane)
	}
	line := p.lanes[lane]
	at, _ := slices.BinarySearchFunc(line, j, func(a, b *job) int { return a.since.Compare(b.since) })
	p.lanes[lane] = slices.Insert(line, at, j)
	p.count++
	full := lane
	if len(p.lanes[lane]) <= laneLength {
		if p.count <= queueLength {
			return j, false
		}
		full = p.longestLocked()
	}
	last := len(p.lanes[full]) - 1
	p.lanes[full][last].start <- false
	p.dropLocked(full, last)
	return j, false
}

func (p *pool) longestLocked() (lane string) {
	for name, line := range p.lanes {
		if lane == "" || len(line) > len(p.lanes[lane]) {
			lane = name
		}
	}
	return lane
}

func (p *pool) dropLocked(lane string, i int) {
	p.lanes[lane] = slices.Delete(p.lanes[lane], i, i+1)
	p.count--
	if len(p.lanes[lane]) == 0 {
		delete(p.lanes, lane)
		p.turns = slices.DeleteFunc(p.turns, func(t string) bool { return t == lane })
	}
}

// leave ends the wait of j. leave reports whether j got its place at the last moment.
func (p *pool) leave(lane string, j *job) (in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.lanes[lane], j); i >= 0 {
		p.dropLocked(lane, i)
		return false
	}
	select {
	case in = <-j.start:
	default:
	}
	return in
}

// leaveWork gives the place to the next lane.
func (p *pool) leaveWork(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent += (took - p.spent) / 16
	p.free++
	for p.free > 0 && p.count > 0 {
		lane := p.turns[0]
		p.turns = append(p.turns[1:], lane)
		p.free--
		p.lanes[lane][0].start <- true
		p.dropLocked(lane, 0)
	}
}

// turnAway stores the place of j for its return, and returns the retry delay: about the time until
// all present callers are served.
func (p *pool) turnAway(j *job) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := min(max(p.spent*time.Duration(p.count)/time.Duration(p.size), 200*time.Millisecond), 5*time.Second)
	now := p.now()
	if len(p.away) >= maxRemembered && now.Sub(p.swept) > time.Second {
		p.swept = now
		for key, turned := range p.away {
			if now.After(turned.until) {
				delete(p.away, key)
			}
		}
	}
	if len(p.away) < maxRemembered {
		p.away[j.key] = place{since: j.since, until: now.Add(wait + rememberFor)}
	}
	return wait
}
