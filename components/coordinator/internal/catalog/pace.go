package catalog

import "time"

const (
	// burst is the number of writes that a Slot may have at once: more than any drain, hand-over or
	// start of a member needs.
	burst = 8
	// refill is the time after which one write of the burst is available again.
	refill = time.Second
)

// pace bounds the writes of one Slot's entry. A workload may report changes at any rate, and each
// write is an entry of Consul's Raft log. A write, also of a drain, waits at most for refill, and
// then writes the newest state. The zero pace has its full burst.
type pace struct {
	// full is the time when the whole burst is available again.
	full time.Time
	// warned: the current delay was logged. The flag is reset once the whole burst is available
	// again.
	warned bool
}

// wait returns the time until a write may be made; 0: now.
func (p pace) wait(now time.Time) time.Duration {
	if !p.full.After(now) {
		return 0
	}
	return max(0, p.full.Sub(now)-(burst-1)*refill)
}

// spend uses up one write.
func (p pace) spend(now time.Time) pace {
	if !p.full.After(now) {
		p = pace{full: now}
	}
	p.full = p.full.Add(refill)
	return p
}

// warn records that a write is delayed; first is true for the first delayed write since the whole
// burst was available.
func (p pace) warn() (next pace, first bool) {
	first, p.warned = !p.warned, true
	return p, first
}

// holdBack reports whether a Slot's entry must wait for its pace, and then schedules the Slot.
func (w *Writer) holdBack(m Member) bool {
	w.mu.Lock()
	now := w.cfg.Now()
	wait, first := w.paces[m.Slot].wait(now), false
	if wait > 0 {
		w.paces[m.Slot], first = w.paces[m.Slot].warn()
	}
	w.mu.Unlock()
	if first {
		w.cfg.Log.Warn("a member changes too often: the catalog gets its newest state once a second", "group", m.Group, "slot", m.Slot, "burst", burst)
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

// unpace forgets the pace of a removed Slot.
func (w *Writer) unpace(slot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.paces, slot)
}
