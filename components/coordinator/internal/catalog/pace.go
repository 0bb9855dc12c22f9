package catalog

import "time"

const (
	// burst is how many writes a Slot may have at once: more than any drain, hand-over or start
	// of a member takes.
	burst = 8
	// refill is how long each of them takes to come back.
	refill = time.Second
)

// pace bounds the writes of one Slot's entry: what a workload says of itself it may say as often
// as it likes, and each write is one of Consul's log. Whatever is to be written waits for refill
// at most, a drain too, since what is written then is the newest word. The zero pace has all of
// its burst.
type pace struct {
	// full is when all of the burst is there again.
	full time.Time
	// told: that something waits was logged, and the burst was not whole since.
	told bool
}

// wait is how long until a write may be made; 0: now.
func (p pace) wait(now time.Time) time.Duration {
	if !p.full.After(now) {
		return 0
	}
	return max(0, p.full.Sub(now)-(burst-1)*refill)
}

// spend takes one write.
func (p pace) spend(now time.Time) pace {
	if !p.full.After(now) {
		p = pace{full: now}
	}
	p.full = p.full.Add(refill)
	return p
}

// tell notes that something waits; first tells that it is the first of its spell.
func (p pace) tell() (next pace, first bool) {
	first, p.told = !p.told, true
	return p, first
}

// holdBack reports whether a Slot's entry is to wait for its pace; it is looked at again then.
func (w *Writer) holdBack(m Member) bool {
	w.mu.Lock()
	now := w.cfg.Now()
	wait, first := w.paces[m.Slot].wait(now), false
	if wait > 0 {
		w.paces[m.Slot], first = w.paces[m.Slot].tell()
	}
	w.mu.Unlock()
	if first {
		w.cfg.Log.Warn("a member changes too often: the catalog has its newest state once a second", "group", m.Group, "slot", m.Slot, "burst", burst)
	}
	if wait > 0 {
		w.dueIn(m.Slot, wait)
	}
	return wait > 0
}

// spend counts a write of a Slot's entry.
func (w *Writer) spend(slot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paces[slot] = w.paces[slot].spend(w.cfg.Now())
}

// unpace forgets the pace of a Slot that is gone.
func (w *Writer) unpace(slot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.paces, slot)
}
