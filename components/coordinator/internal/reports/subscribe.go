package reports

import "time"

// Subscription reports to one reader the Slots whose reports changed in a way that may matter to a
// plan. Safe for concurrent use; only one goroutine calls Take.
type Subscription struct {
	r *Reports
	c chan struct{} // capacity 1: one wake-up covers all

	slots map[string]struct{} // guarded by r.mu
}

// Subscribe returns an empty Subscription. The caller closes it.
func (r *Reports) Subscribe() *Subscription {
	s := &Subscription{r: r, c: make(chan struct{}, 1), slots: map[string]struct{}{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribed[s] = struct{}{}
	return s
}

// C receives a value when Take has something to return.
func (s *Subscription) C() <-chan struct{} { return s.c }

// Take returns the Slots that changed since the last Take.
func (s *Subscription) Take() map[string]struct{} {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	out := s.slots
	s.slots = map[string]struct{}{}
	return out
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	delete(s.r.subscribed, s)
}

// noteLocked notifies all subscribers of one Slot.
func (r *Reports) noteLocked(slot string) {
	r.wakeLocked()
	for s := range r.subscribed {
		s.slots[slot] = struct{}{}
		select {
		case s.c <- struct{}{}:
		default:
		}
	}
}

// Overdue returns the Slots whose last report is older than from, and not older than to. Called at
// an interval of to minus from, it returns each silent Slot once.
func (r *Reports) Overdue(from, to time.Duration) (slots []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for slot, got := range r.last {
		if age := now.Sub(got.At); age > from && age <= to {
			slots = append(slots, slot)
		}
	}
	return slots
}
