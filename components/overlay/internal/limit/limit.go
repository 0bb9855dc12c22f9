package limit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Limiter has a number of places and a line before them. Safe for concurrent use.
type Limiter struct {
	places, line int
	wait         time.Duration

	mu     sync.Mutex
	inside []*Place    // guarded by mu
	queue  []*waiting  // guarded by mu; first come first
	timer  *time.Timer // guarded by mu; set while a caller waits
}

// Place is a caller's, until it leaves or is shown out.
type Place struct {
	limiter *Limiter
	out     func()
	due     time.Time // guarded by limiter.mu; from then on another caller may have it
}

type waiting struct {
	place *Place
	in    chan struct{} // closed when the place is taken
}

// New makes a Limiter with so many places, before which so many callers wait, each for
// at most wait. A line of 0 turns callers away at once.
func New(places, line int, wait time.Duration) *Limiter {
	return &Limiter{places: places, line: line, wait: wait}
}

// Enter takes a place, waits for one in line, or gives up: then ok is false. The place is
// safe for patience. After that the limiter may call out, once and from any goroutine,
// and out has to end the caller's work. The caller calls Leave in any case.
func (d *Limiter) Enter(ctx context.Context, patience time.Duration, out func()) (p *Place, ok bool) {
	p = &Place{limiter: d, out: out}
	w := &waiting{place: p, in: make(chan struct{})}
	if !d.join(w, patience) {
		return nil, false
	}
	limit := time.NewTimer(d.wait)
	defer limit.Stop()
	select {
	case <-w.in:
	case <-limit.C:
	case <-ctx.Done():
	}
	if !d.entered(w, patience) {
		return nil, false
	}
	return p, true
}

// GotOn keeps the place safe for patience from now: the caller made progress that an idle
// caller does not make.
func (p *Place) GotOn(patience time.Duration) {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	p.due = time.Now().Add(patience)
}

// Leave gives the place back, if it is still the caller's.
func (p *Place) Leave() {
	d := p.limiter
	d.mu.Lock()
	d.inside = slices.DeleteFunc(d.inside, func(q *Place) bool { return q == p })
	d.fillLocked()
	d.mu.Unlock()
}

// Waiting is how many callers stand in line.
func (d *Limiter) Waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.queue)
}

// Inside is how many callers have a place.
func (d *Limiter) Inside() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.inside)
}

// join puts w at the end of the line, which may be its beginning; false when the line
// is full.
func (d *Limiter) join(w *waiting, patience time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.place.due = time.Now().Add(patience)
	d.queue = append(d.queue, w)
	d.fillLocked()
	if len(d.queue) <= d.line {
		return true
	}
	d.queue = d.queue[:len(d.queue)-1] // w itself, which came last
	return false
}

// entered ends the wait of w and reports whether it has a place, whose patience begins
// now.
func (d *Limiter) entered(w *waiting, patience time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.queue, w); i >= 0 {
		d.queue = slices.Delete(d.queue, i, i+1)
		d.fillLocked()
		return false
	}
	w.place.due = time.Now().Add(patience)
	return true
}

// fillLocked lets in whom there is a place for, and sets the timer for the next one.
func (d *Limiter) fillLocked() {
	now := time.Now()
	for len(d.queue) > 0 {
		if len(d.inside) >= d.places && !d.showOutLocked(now) {
			break
		}
		w := d.queue[0]
		d.queue = d.queue[1:]
		d.inside = append(d.inside, w.place)
		close(w.in)
	}
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if len(d.queue) > 0 && len(d.inside) > 0 {
		d.timer = time.AfterFunc(d.firstLocked().due.Sub(now), d.fill)
	}
}

func (d *Limiter) fill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fillLocked()
}

// showOutLocked frees the place that is overdue for longest, if there is any.
func (d *Limiter) showOutLocked(now time.Time) bool {
	p := d.firstLocked()
	if p == nil || p.due.After(now) {
		return false
	}
	d.inside = slices.DeleteFunc(d.inside, func(q *Place) bool { return q == p })
	go p.out()
	return true
}

// firstLocked is the place that falls due first.
func (d *Limiter) firstLocked() *Place {
	if len(d.inside) == 0 {
		return nil
	}
	return slices.MinFunc(d.inside, func(a, b *Place) int { return a.due.Compare(b.due) })
}
