package admission

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// laneLength bounds those who wait for one Slot, queueLength those of all.
	laneLength  = 32
	queueLength = 1024
	// queueWait bounds the wait of one: an agent gives an exchange 30 s.
	queueWait = 10 * time.Second
)

// pool bounds the expensive work, the verification of evidence, to as many as
// there are processors. Those who wait stand in one lane per Slot, and the lanes
// take turns, so that junk about one Slot costs the others nothing. A full lane
// sheds one of its own at random: a newcomer in a flood of junk has the same
// chance as each of the junk, at each of its tries (INP-06).
type pool struct {
	mu    sync.Mutex
	free  int               // guarded by mu
	lanes map[string][]*job // guarded by mu
	turns []string          // guarded by mu; lanes with somebody in them, next first
	count int               // guarded by mu; of those who wait
	spent time.Duration     // guarded by mu; moving average of one piece of work
	size  int
}

type job struct {
	start chan bool // capacity 1; false: shed
}

func newPool(size int) *pool {
	return &pool{free: size, size: size, lanes: map[string][]*job{}, spent: 5 * time.Millisecond}
}

// enter waits for a place; the caller calls done when the work is done.
func (p *pool) enter(ctx context.Context, lane string) (done func(), refused *refusal) {
	j, in := p.join(lane)
	if !in {
		select {
		case in = <-j.start:
		case <-ctx.Done():
		case <-expired(queueWait):
		}
	}
	if !in && !p.leave(lane, j) {
		return nil, refuse(codeOverloaded, "too many admissions at once; try again").later().in(p.backoff())
	}
	began := time.Now()
	return func() { p.leaveWork(time.Since(began)) }, nil
}

// join takes a free place or stands in line.
func (p *pool) join(lane string) (j *job, in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j = &job{start: make(chan bool, 1)}
	if p.free > 0 && p.count == 0 {
		p.free--
		return j, true
	}
	full := lane
	if len(p.lanes[lane]) < laneLength && p.count >= queueLength {
		full = p.longestLocked()
	}
	if line := p.lanes[full]; len(line) >= laneLength || p.count >= queueLength {
		if victim := rand.N(len(line) + 1); victim < len(line) { //nolint:gosec // fairness needs no secret
			line[victim].start <- false
			p.dropLocked(full, victim)
		} else {
			j.start <- false
			return j, false
		}
	}
	if len(p.lanes[lane]) == 0 {
		p.turns = append(p.turns, lane)
	}
	p.lanes[lane] = append(p.lanes[lane], j)
	p.count++
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

// leave ends the wait of j. It reports that j got its place at the last moment.
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

// backoff is when a place may be free, for whoever was turned away.
func (p *pool) backoff() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := p.spent * time.Duration(p.count) / time.Duration(p.size)
	return min(max(wait, 200*time.Millisecond), 5*time.Second)
}

func expired(d time.Duration) <-chan time.Time { return time.After(d) }
