package view

import "math"

// Subscription reports to one reader the changes since its last Take. Safe for concurrent use; only
// one goroutine calls Take.
type Subscription struct {
	w *Watcher
	c chan struct{} // capacity 1: one wake-up covers all changes

	pending Changes // guarded by w.mu
}

// Subscribe returns a Subscription whose first Take reports everything as changed. The caller
// closes it.
func (w *Watcher) Subscribe() *Subscription {
	s := &Subscription{w: w, c: make(chan struct{}, 1), pending: Changes{All: true}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subscribed[s] = struct{}{}
	s.wake()
	return s
}

// Hint announces a changed record of a group to all subscribers before the watch does. The next
// consistent read sees the change; the View may not have it yet.
func (w *Watcher) Hint(group string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.subscribed {
		s.pending.group(group, math.MaxUint64)
		s.wake()
	}
}

// C receives a value when a Take has something to return.
func (s *Subscription) C() <-chan struct{} { return s.c }

// Take returns the latest View, nil before the first, and the changes since the last Take.
func (s *Subscription) Take() (*View, Changes) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.w.latest == nil {
		return nil, Changes{}
	}
	out := s.pending
	s.pending = Changes{}
	return s.w.latest, out
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	delete(s.w.subscribed, s)
}

// wake leaves a value in C.
func (s *Subscription) wake() {
	select {
	case s.c <- struct{}{}:
	default:
	}
}
