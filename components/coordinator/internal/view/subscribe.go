package view

import "math"

// Subscription tells one reader what changed since it looked last. Safe for concurrent
// use; one goroutine takes.
type Subscription struct {
	w *Watcher
	c chan struct{} // capacity 1: one wake-up stands for all

	pending Changes // guarded by w.mu
}

// Subscribe begins with everything being new. The caller closes it.
func (w *Watcher) Subscribe() *Subscription {
	s := &Subscription{w: w, c: make(chan struct{}, 1), pending: Changes{All: true}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subscribed[s] = struct{}{}
	s.wake()
	return s
}

// Hint tells subscribers that records of a group changed, before the watch does: the next
// consistent read sees it, the View may not yet.
func (w *Watcher) Hint(group string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.subscribed {
		s.pending.group(group, math.MaxUint64)
		s.wake()
	}
}

// C gives a value when there is something to take.
func (s *Subscription) C() <-chan struct{} { return s.c }

// Take is the latest View, nil before the first, with what changed since the last Take.
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

// Close ends it.
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
