package door

import (
	"sync"
	"time"
)

// Limits share the door among those who use it. Zero fields take the defaults.
type Limits struct {
	// Conns of one Peer, and of all.
	Conns, AllConns int
	// Running are requests of one Peer, and of all, that Consul is asked to answer at once;
	// Blocked are those that wait there for a change.
	Running, AllRunning, Blocked, AllBlocked int
	// Rate is how many requests one Peer may make in a second, Burst how many at once.
	Rate, Burst float64
	// Sessions that one Peer may have.
	Sessions int
}

// Patroni makes about two requests a second and member; a member of ten thousand has one
// connection.
var defaults = Limits{
	Conns: 8, AllConns: 32768, Running: 16, AllRunning: 512, Blocked: 64, AllBlocked: 65536, Rate: 50, Burst: 200, Sessions: 64,
}

func (l Limits) complete() Limits {
	fill := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	fill(&l.Conns, defaults.Conns)
	fill(&l.AllConns, defaults.AllConns)
	fill(&l.Running, defaults.Running)
	fill(&l.AllRunning, defaults.AllRunning)
	fill(&l.Blocked, defaults.Blocked)
	fill(&l.AllBlocked, defaults.AllBlocked)
	fill(&l.Sessions, defaults.Sessions)
	if l.Rate == 0 {
		l.Rate = defaults.Rate
	}
	if l.Burst == 0 {
		l.Burst = defaults.Burst
	}
	return l
}

// held counts what one Peer has, or all.
type held struct{ conns, running, blocked int }

// share is what one Peer uses.
type share struct {
	held
	// left of the bucket at the time at.
	left float64
	at   time.Time
}

// shares are what all use. Safe for concurrent use.
type shares struct {
	limits Limits
	now    func() time.Time

	mu    sync.Mutex
	peers map[string]*share // guarded by mu; by Slot
	all   held              // guarded by mu
}

func newShares(limits Limits, now func() time.Time) *shares {
	return &shares{limits: limits.complete(), now: now, peers: map[string]*share{}}
}

func (s *shares) ofLocked(slot string) *share {
	one := s.peers[slot]
	if one == nil {
		one = &share{left: s.limits.Burst, at: s.now()}
		s.peers[slot] = one
	}
	return one
}

// conn takes a place for a connection.
func (s *shares) conn(slot string) (done func(), ok bool) {
	return s.enter(slot, func(h *held) *int { return &h.conns }, s.limits.Conns, s.limits.AllConns)
}

// request takes a place for a request that Consul is asked.
func (s *shares) request(slot string, blocks bool) (done func(), ok bool) {
	if blocks {
		return s.enter(slot, func(h *held) *int { return &h.blocked }, s.limits.Blocked, s.limits.AllBlocked)
	}
	return s.enter(slot, func(h *held) *int { return &h.running }, s.limits.Running, s.limits.AllRunning)
}

func (s *shares) enter(slot string, count func(*held) *int, own, all int) (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	if *count(&one.held) >= own || *count(&s.all) >= all {
		return nil, false
	}
	*count(&one.held)++
	*count(&s.all)++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*count(&one.held)--
		*count(&s.all)--
		s.forgetLocked(slot, one)
	}, true
}

// take takes a request out of the Peer's bucket.
func (s *shares) take(slot string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	s.refillLocked(one)
	if one.left < 1 {
		return false
	}
	one.left--
	return true
}

func (s *shares) refillLocked(one *share) {
	now := s.now()
	one.left = min(s.limits.Burst, one.left+now.Sub(one.at).Seconds()*s.limits.Rate)
	one.at = now
}

// forgetLocked drops a Peer that has nothing and owes nothing. One that comes back gets
// no more by it.
func (s *shares) forgetLocked(slot string, one *share) {
	if one.held == (held{}) {
		if s.refillLocked(one); one.left >= s.limits.Burst {
			delete(s.peers, slot)
		}
	}
}
