package callers

import (
	"context"
	"crypto/sha256"
	"math"
	"net"
	"sync"
	"time"
)

// Config of Callers. All fields are required.
type Config struct {
	// Token names the metadata with the caller's token.
	Token string
	// Check tells whether a token is an operator's, nil: it is. Refused tells of its
	// error whether that is certain; otherwise it could not be found out now. Concurrent.
	Check   func(ctx context.Context, token string) error
	Refused func(error) bool
	// Open tells of a full method name whether anybody may call it.
	Open func(method string) bool
}

// class of a connection.
type class int

const (
	newcomer class = iota
	stranger
	operator
)

// bounds of a class: how many connections, for how long, and how many bytes each may send.
type bounds struct {
	places int
	time   time.Duration // 0: for ever
	bytes  int64
}

// A newcomer costs about 10 KiB: a goroutine and half of a handshake. A stranger has the
// buffers of TLS and HTTP/2 too, about 50 KiB beside what it sends.
var byClass = [...]bounds{
	newcomer: {places: 512, time: 5 * time.Second, bytes: 16 << 10},
	stranger: {places: 128, time: 20 * time.Second, bytes: 64 << 10},
	operator: {places: 128, bytes: math.MaxInt64},
}

const (
	// eachToken is how many connections one token may have: one holder does not take the
	// places of all.
	eachToken = 64
	// openCalls is how many open calls, and refusals how many refused ones, the connection
	// of a stranger may have in all. Proving a coordinator takes one.
	openCalls = 2
	refusals  = 4
	// unused is how long an operator's connection without a call keeps its class when
	// somebody else needs the place, or when it calls without a token.
	unused = 20 * time.Second
)

// Callers knows the connections of one API. Safe for concurrent use.
type Callers struct {
	cfg     Config
	tokens  *tokens
	classes [len(byClass)]bounds
	// ctx ends with Close, and with it whatever waits for an answer about a token.
	ctx context.Context //nolint:containedctx // of connections and questions, not of a call
	end context.CancelFunc

	mu   sync.Mutex
	held [len(byClass)]map[*conn]struct{} // guarded by mu
	made uint64                           // guarded by mu; connections so far
}

// New makes Callers without a connection.
func New(cfg Config) *Callers {
	ctx, end := context.WithCancel(context.Background())
	c := &Callers{cfg: cfg, classes: byClass, ctx: ctx, end: end}
	c.tokens = newTokens(ctx, cfg, c.disown)
	for i := range c.held {
		c.held[i] = map[*conn]struct{}{}
	}
	return c
}

// Close ends what is asked about tokens, and waits for it: calls with tokens that are not
// known are refused from here on. Connections are not touched.
func (c *Callers) Close() {
	c.end()
	c.tokens.wait()
}

// Strangers is how many connections are held for whom no token vouches, those in their
// handshake included; Operators how many for operators.
func (c *Callers) Strangers() int { return c.count(newcomer) + c.count(stranger) }

// Operators is the other number of Strangers.
func (c *Callers) Operators() int { return c.count(operator) }

func (c *Callers) count(of class) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held[of])
}

// Listener gives l's connections a place as newcomers.
func (c *Callers) Listener(l net.Listener) net.Listener { return &listener{Listener: l, callers: c} }

type listener struct {
	net.Listener
	callers *Callers
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.callers.hold(inner), nil
}

// hold takes a place for a connection, which somebody else may lose for it.
func (c *Callers) hold(inner net.Conn) *conn {
	ctx, end := context.WithCancel(c.ctx)
	one := &conn{Conn: inner, callers: c, source: sourceOf(inner), ctx: ctx, end: end}
	one.left.Store(c.classes[newcomer].bytes)
	c.mu.Lock()
	c.made++
	one.number = c.made
	one.timer = time.AfterFunc(c.classes[newcomer].time, one.overdue)
	c.held[newcomer][one] = struct{}{}
	out := c.crowdedLocked(newcomer)
	c.mu.Unlock()
	if out != nil {
		_ = out.Close()
	}
	return one
}

// handshaken makes a stranger of a newcomer.
func (c *Callers) handshaken(one *conn) {
	c.mu.Lock()
	c.moveLocked(one, stranger)
	out := c.crowdedLocked(stranger)
	c.mu.Unlock()
	if out != nil {
		_ = out.Close()
	}
}

// moveLocked puts a connection into another class; one that is closed stays so.
func (c *Callers) moveLocked(one *conn, to class) {
	if _, held := c.held[one.class][one]; !held {
		return
	}
	delete(c.held[one.class], one)
	c.held[to][one] = struct{}{}
	one.class = to
	one.left.Store(c.classes[to].bytes)
	one.open, one.refused = 0, 0
	one.timer.Stop()
	if limit := c.classes[to].time; limit > 0 {
		one.timer = time.AfterFunc(limit, one.overdue)
	}
}

// crowdedLocked is who has to leave a class of strangers that has more than its places:
// the oldest of the source that has most.
func (c *Callers) crowdedLocked(in class) *conn {
	if len(c.held[in]) <= c.classes[in].places {
		return nil
	}
	return oldest(c.held[in], func(one *conn) string { return one.source }, func(*conn) bool { return true })
}

// oldest is the oldest connection that may go of those whose owner has most.
func oldest(all map[*conn]struct{}, owner func(*conn) string, mayGo func(*conn) bool) *conn {
	has := map[string]int{}
	for one := range all {
		has[owner(one)]++
	}
	var out *conn
	for one := range all {
		if !mayGo(one) {
			continue
		}
		if out == nil {
			out = one
			continue
		}
		a, b := has[owner(one)], has[owner(out)]
		if a > b || a == b && one.number < out.number {
			out = one
		}
	}
	return out
}

// promote makes an operator's of a connection whose call brought a good token. It is false
// when no place is free, nor one that nobody uses.
func (c *Callers) promote(one *conn, token digest) bool {
	c.mu.Lock()
	out, ok := c.promoteLocked(one, token)
	c.mu.Unlock()
	if out != nil {
		_ = out.Close()
	}
	return ok
}

func (c *Callers) promoteLocked(one *conn, token digest) (out *conn, ok bool) {
	one.used = time.Now()
	if one.class == operator {
		return nil, true
	}
	same := map[*conn]struct{}{}
	for other := range c.held[operator] {
		if other.token == token {
			same[other] = struct{}{}
		}
	}
	from := c.held[operator]
	if len(same) >= eachToken {
		from = same
	}
	if len(same) >= eachToken || len(from) >= c.classes[operator].places {
		out = oldest(from, func(o *conn) string { return string(o.token[:]) }, func(o *conn) bool {
			return o.running == 0 && time.Since(o.used) >= unused
		})
		if out == nil {
			return nil, false
		}
	}
	one.token = token
	c.moveLocked(one, operator)
	return out, true
}

// disown makes strangers of a token's connections, as far as they carry no call: what runs
// there ends by itself when Consul does not let it go on.
func (c *Callers) disown(token digest) {
	c.mu.Lock()
	var out []*conn
	for one := range c.held[operator] {
		if one.token != token || one.running > 0 {
			continue
		}
		c.moveLocked(one, stranger)
		if left := c.crowdedLocked(stranger); left != nil {
			delete(c.held[left.class], left)
			out = append(out, left)
		}
	}
	c.mu.Unlock()
	for _, one := range out {
		_ = one.Close()
	}
}

// digest stands for a token: secrets are not kept.
type digest [sha256.Size]byte
