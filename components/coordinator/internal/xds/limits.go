package xds

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// Limits share the relay among its members. Zero fields take the defaults.
type Limits struct {
	// Conns and Streams of one member, and of all.
	Conns, AllConns, Streams, AllStreams int
	// Message bounds one message of a member, in bytes, and Reading the messages in progress of
	// all.
	Message, Reading int
	// Opened is how many streams one member may open per second, and OpenedBurst how many at once.
	Opened, OpenedBurst float64
	// Sent is how many messages one member may send per second, and SentBurst how many at once. A
	// message of n KiB counts as 1 + n. Excess messages wait.
	Sent, SentBurst float64
	// HalfSent bounds the time of a message in progress, and of a stream's first one. Unread bounds
	// the time without a read while data waits for a stream.
	HalfSent, Unread time.Duration
}

// A member has one Envoy for each of its backends and one for its upstreams, each with one stream.
// Envoy's first message lists its capabilities, about 60 KiB, and it answers each message.
var defaults = Limits{
	Conns: 16, AllConns: 16384, Streams: 16, AllStreams: 8192, Message: 512 << 10, Reading: 256 << 20,
	Opened: 1, OpenedBurst: 32, Sent: 100, SentBurst: 2000, HalfSent: 15 * time.Second, Unread: time.Minute,
}

func (l Limits) complete() Limits {
	d := defaults
	fill(&l.Conns, d.Conns)
	fill(&l.AllConns, d.AllConns)
	fill(&l.Streams, d.Streams)
	fill(&l.AllStreams, d.AllStreams)
	fill(&l.Message, d.Message)
	fill(&l.Reading, d.Reading)
	fill(&l.Opened, d.Opened)
	fill(&l.OpenedBurst, d.OpenedBurst)
	fill(&l.Sent, d.Sent)
	fill(&l.SentBurst, d.SentBurst)
	fill(&l.HalfSent, d.HalfSent)
	fill(&l.Unread, d.Unread)
	return l
}

func fill[T int | float64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// bucket is refilled per second.
type bucket struct {
	left float64
	at   time.Time
}

func (b *bucket) fill(now time.Time, rate, burst float64) {
	b.left = min(burst, b.left+now.Sub(b.at).Seconds()*rate)
	b.at = now
}

// share is the usage of one member.
type share struct {
	conns, streams int
	opened, sent   bucket
	// said is the last refusal that was logged.
	said string
}

// shares are the usage of all members. Safe for concurrent use.
type shares struct {
	limits Limits
	now    func() time.Time

	mu      sync.Mutex
	members map[string]*share // guarded by mu; by Slot, of members with connections or debts
	conns   int               // guarded by mu; of all, like streams and reading
	streams int
	reading int
}

func newShares(limits Limits, now func() time.Time) *shares {
	return &shares{limits: limits.complete(), now: now, members: map[string]*share{}}
}

// ofLocked returns the share of a member, with refilled buckets.
func (s *shares) ofLocked(slot string) *share {
	now, l := s.now(), s.limits
	one := s.members[slot]
	if one == nil {
		one = &share{opened: bucket{l.OpenedBurst, now}, sent: bucket{l.SentBurst, now}}
		s.members[slot] = one
	}
	one.opened.fill(now, l.Opened, l.OpenedBurst)
	one.sent.fill(now, l.Sent, l.SentBurst)
	return one
}

// forgetLocked drops a member without connections, streams and debts.
func (s *shares) forgetLocked(slot string) {
	one, l := s.ofLocked(slot), s.limits
	if one.conns == 0 && one.streams == 0 && one.opened.left >= l.OpenedBurst && one.sent.left >= l.SentBurst {
		delete(s.members, slot)
	}
}

// conn reserves a connection.
func (s *shares) conn(slot string) (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	if one.conns >= s.limits.Conns || s.conns >= s.limits.AllConns {
		return nil, false
	}
	one.conns++
	s.conns++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		one.conns--
		s.conns--
		s.forgetLocked(slot)
	}, true
}

// open takes a call from the member's bucket.
func (s *shares) open(slot string) *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	if one.opened.left < 1 {
		return refuse(codes.ResourceExhausted, "%s opened more than %.0f streams in a second", slot, s.limits.Opened)
	}
	one.opened.left--
	return nil
}

// stream reserves a stream.
func (s *shares) stream(slot string) (done func(), refused *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	switch {
	case one.streams >= s.limits.Streams:
		return nil, refuse(codes.ResourceExhausted, "%s has %d streams, which is the most for one member", slot, one.streams)
	case s.streams >= s.limits.AllStreams:
		return nil, refuse(codes.ResourceExhausted, "all members together have %d streams here, which is the most", s.streams)
	}
	one.streams++
	s.streams++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		one.streams--
		s.streams--
		s.forgetLocked(slot)
	}, nil
}

// read reserves the room of the next message.
func (s *shares) read(size int) (done func(), refused *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case size > s.limits.Message:
		return nil, refuse(codes.ResourceExhausted, "the message has %d bytes, and %d are the most", size, s.limits.Message)
	case s.reading+size > s.limits.Reading:
		return nil, refuse(codes.ResourceExhausted, "messages of %d bytes are being sent by all members together, which is the most", s.reading)
	}
	s.reading += size
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reading -= size
	}, nil
}

// sent counts a message, and returns how long the member's next one must wait.
func (s *shares) sent(slot string, size int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	one.sent.left -= 1 + float64(size>>10)
	return time.Duration(max(0, -one.sent.left) / s.limits.Sent * float64(time.Second))
}

// news reports whether the text differs from the last refusal of this member.
func (s *shares) news(slot, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.ofLocked(slot)
	is := one.said != text
	one.said = text
	return is
}

// Shares returns the documented table of the limits, in Markdown.
func Shares() string {
	l := defaults
	return fmt.Sprintf(`| bound | of one member | of all |
|---|---|---|
| connections | %d | %d |
| streams | %d | %d |
| new streams in a second | %.0f, after %.0f at once | – |
| messages to Consul in a second, counted per KiB; further messages wait | %.0f, after %.0f at once | – |
| bytes of one message to Consul | %d KiB | – |
| bytes of messages in transfer | – | %d MiB |
| time of a begun message, and of a stream's first message | %v | – |
| pause of a reader of Consul's messages | %v | – |
`, l.Conns, l.AllConns, l.Streams, l.AllStreams, l.Opened, l.OpenedBurst, l.Sent, l.SentBurst, l.Message>>10, l.Reading>>20, l.HalfSent, l.Unread)
}
