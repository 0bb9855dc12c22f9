package consulproxy

import (
	"fmt"
	"sync"
	"time"
)

// Limits share the Consul proxy among its callers. Zero fields take the defaults.
type Limits struct {
	// Conns of one Peer, and of all.
	Conns, AllConns int
	// Running bounds the open requests of one Peer, and AllRunning the requests of all Peers that
	// Consul works on. Blocked and AllBlocked bound the blocking queries.
	Running, AllRunning, Blocked, AllBlocked int
	// Rate is the number of requests per second of one Peer, and Burst the number at once. A
	// request that makes Consul scan the entries of all members counts for several.
	Rate, Burst float64
	// Sent bounds the bytes of bodies from one Peer per second, and Answered those of its answers,
	// on average. SentBurst and AnsweredBurst bound the bytes at once.
	Sent, SentBurst, Answered, AnsweredBurst float64
	// Answer bounds one answer in bytes, Unread the unread answers of one Peer, and AllUnread those
	// of all.
	Answer, Unread, AllUnread int
	// Little is the number of unread bytes that each Peer may always have: slow readers must not
	// prevent another member from keeping its lock.
	Little int
	// Stored bounds the keys of one group, in bytes of Consul's answer.
	Stored int
	// Sessions bounds the sessions of one Peer.
	Sessions int
}

// Patroni makes about two requests a second per member, of a few hundred bytes each. A member of
// ten thousand has one connection, and a list of all of them has some 5 MiB.
var defaults = Limits{
	Conns: 8, AllConns: 32768, Running: 16, AllRunning: 512, Blocked: 32, AllBlocked: 8192, Rate: 50, Burst: 200,
	Sent: 256 << 10, SentBurst: 4 << 20, Answered: 4 << 20, AnsweredBurst: 64 << 20,
	Answer: 16 << 20, Unread: 32 << 20, AllUnread: 512 << 20, Little: 16 << 10, Stored: 4 << 20, Sessions: 64,
}

// Connections returns the maximum number of connections from the Consul proxy to Consul.
func Connections() int { return defaults.AllRunning + defaults.AllBlocked }

func (l Limits) complete() Limits {
	d := defaults
	fill(&l.Conns, d.Conns)
	fill(&l.AllConns, d.AllConns)
	fill(&l.Running, d.Running)
	fill(&l.AllRunning, d.AllRunning)
	fill(&l.Blocked, d.Blocked)
	fill(&l.AllBlocked, d.AllBlocked)
	fill(&l.Rate, d.Rate)
	fill(&l.Burst, d.Burst)
	fill(&l.Sent, d.Sent)
	fill(&l.SentBurst, d.SentBurst)
	fill(&l.Answered, d.Answered)
	fill(&l.AnsweredBurst, d.AnsweredBurst)
	fill(&l.Answer, d.Answer)
	fill(&l.Unread, d.Unread)
	fill(&l.AllUnread, d.AllUnread)
	fill(&l.Little, d.Little)
	fill(&l.Stored, d.Stored)
	fill(&l.Sessions, d.Sessions)
	return l
}

func fill[T int | float64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// usage counts the use by one Peer, or by all.
type usage struct{ conns, running, blocked, unread int }

// bucket is refilled over time. A withdrawal may bring it below zero: the Peer then waits until the
// debt is paid off.
type bucket struct {
	left float64
	at   time.Time
}

func (b *bucket) fill(now time.Time, rate, burst float64) {
	b.left = min(burst, b.left+now.Sub(b.at).Seconds()*rate)
	b.at = now
}

// share is the use by one Peer.
type share struct {
	usage
	requests, sent, answered bucket
}

// shares are the use by all Peers. Safe for concurrent use.
type shares struct {
	limits Limits
	now    func() time.Time

	mu    sync.Mutex
	peers map[string]*share // guarded by mu; by Slot
	all   usage             // guarded by mu
}

func newShares(limits Limits, now func() time.Time) *shares {
	return &shares{limits: limits.complete(), now: now, peers: map[string]*share{}}
}

// ofLocked returns the share of a Peer, with its buckets refilled.
func (s *shares) ofLocked(slot string) *share {
	now, l := s.now(), s.limits
	one := s.peers[slot]
	if one == nil {
		one = &share{requests: bucket{l.Burst, now}, sent: bucket{l.SentBurst, now}, answered: bucket{l.AnsweredBurst, now}}
		s.peers[slot] = one
	}
	one.requests.fill(now, l.Rate, l.Burst)
	one.sent.fill(now, l.Sent, l.SentBurst)
	one.answered.fill(now, l.Answered, l.AnsweredBurst)
	return one
}

// conn takes a place for a connection.
func (s *shares) conn(slot string) (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	if one.conns >= s.limits.Conns || s.all.conns >= s.limits.AllConns {
		return nil, false
	}
	one.conns++
	s.all.conns++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		one.conns--
		s.all.conns--
		s.forgetLocked(slot)
	}, true
}

// take withdraws a request of the given cost from the Peer's bucket. take also checks that the Peer
// may get an answer and, if the request has a body, send it.
func (s *shares) take(slot string, cost float64, body bool) *Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	switch {
	case one.requests.left < cost:
		return overloaded("%s made more than %.0f requests in a second (this one counts for %.0f)", slot, s.limits.Rate, cost)
	case body && one.sent.left <= 0:
		return overloaded("%s sent more than %s in a second", slot, size(s.limits.Sent))
	case one.answered.left <= 0:
		return overloaded("%s received more than %s in a second; ask for less, by filter or prefix", slot, size(s.limits.Answered))
	case one.unread >= s.limits.Unread:
		return s.unreadOf(slot)
	case s.all.unread >= s.limits.AllUnread && one.unread >= s.limits.Little:
		return s.unreadOfAll()
	}
	one.requests.left -= cost
	return nil
}

func (s *shares) unreadOf(slot string) *Refusal {
	return overloaded("%s has %s of unread answers, which is the maximum for one member", slot, size(s.limits.Unread))
}

func (s *shares) unreadOfAll() *Refusal {
	return overloaded("all members together have %s of unread answers, which is the maximum", size(s.limits.AllUnread))
}

// sent counts a body.
func (s *shares) sent(slot string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ofLocked(slot).sent.left -= float64(n)
}

// request takes a place among the Peer's open requests.
func (s *shares) request(slot string, blocks bool) (done func(), refused *Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	count, most, what := &one.running, s.limits.Running, "open requests"
	if blocks {
		count, most, what = &one.blocked, s.limits.Blocked, "blocking queries"
	}
	if *count >= most {
		return nil, overloaded("%s has %d %s, which is the maximum for one member", slot, most, what)
	}
	*count++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*count--
		s.forgetLocked(slot)
	}, nil
}

// place is the place of one request among the requests that Consul works on. The request gives it
// back when Consul has answered, and while it waits for anything else. Thus no slow sender, slow
// reader or waiting request holds one. For one goroutine.
type place struct {
	shares *shares
	blocks bool
	had    bool
}

// place returns a place that is not taken yet.
func (s *shares) place(blocks bool) *place { return &place{shares: s, blocks: blocks} }

func (p *place) countLocked() (count *int, most int, what string) {
	s := p.shares
	if p.blocks {
		return &s.all.blocked, s.limits.AllBlocked, "blocking queries"
	}
	return &s.all.running, s.limits.AllRunning, "open requests"
}

// take takes the place, if one is free.
func (p *place) take() *Refusal {
	p.shares.mu.Lock()
	defer p.shares.mu.Unlock()
	count, most, what := p.countLocked()
	if *count >= most {
		return overloaded("all members together have %d %s, which is the maximum", most, what)
	}
	*count++
	p.had = true
	return nil
}

// leave gives the place back, if it was taken.
func (p *place) leave() {
	p.shares.mu.Lock()
	defer p.shares.mu.Unlock()
	if !p.had {
		return
	}
	count, _, _ := p.countLocked()
	*count--
	p.had = false
}

// reserve takes the room of the largest answer before the request.
func (s *shares) reserve(slot string) (over func(), refused *Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	switch n := s.limits.Answer; {
	case one.unread+n > s.limits.Unread:
		return func() {}, s.unreadOf(slot)
	case s.all.unread+n > s.limits.AllUnread:
		return func() {}, s.unreadOfAll()
	}
	one.unread += s.limits.Answer
	s.all.unread += s.limits.Answer
	return func() { s.read(slot, s.limits.Answer) }, nil
}

// unread counts n more bytes of an answer for the Peer, which had before bytes so far. With must it
// never refuses, because the request had its effect.
func (s *shares) unread(slot string, before, n int, must bool) *Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	switch {
	case must:
	case before+n > s.limits.Answer:
		return &Refusal{statusTooLarge, CodeInvalid, fmt.Sprintf("the answer has more than %s, which is the maximum for one; ask for less, by filter or prefix", size(s.limits.Answer))}
	case one.unread+n > s.limits.Unread:
		return s.unreadOf(slot)
	case s.all.unread+n > s.limits.AllUnread && one.unread+n > s.limits.Little:
		return s.unreadOfAll()
	}
	one.unread += n
	s.all.unread += n
	one.answered.left -= float64(n)
	return nil
}

// read takes back n bytes of unread: the Peer has read them, or its request ended.
func (s *shares) read(slot string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ofLocked(slot).unread -= n
	s.all.unread -= n
	s.forgetLocked(slot)
}

// forgetLocked drops a Peer without use or debt. A returning Peer starts with full buckets, as
// before.
func (s *shares) forgetLocked(slot string) {
	one, l := s.ofLocked(slot), s.limits
	if one.usage == (usage{}) && one.requests.left >= l.Burst && one.sent.left >= l.SentBurst && one.answered.left >= l.AnsweredBurst {
		delete(s.peers, slot)
	}
}

// size formats a number of bytes.
func size[T int | float64](n T) string {
	if int(n) >= 1<<20 && int(n)%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", int(n)>>20)
	}
	return fmt.Sprintf("%d KiB", int(n)>>10)
}
