package callers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net"
	"sync"
	"time"
)

// Config of Callers. All fields are required.
type Config struct {
	// Token is the name of the metadata entry with the caller's token.
	Token string
	// Check returns nil if a token is an operator's. Refused reports whether Check's error is a
	// definite refusal; otherwise the check failed and may be retried. Both are called
	// concurrently.
	Check   func(ctx context.Context, token string) error
	Refused func(error) bool
	// Open reports whether any caller may call the method with this full name.
	Open func(method string) bool
}

// class of a connection.
type class int

const (
	newcomer class = iota
	unauthenticated
	operator
)

// bounds of a class: the number of connections, the lifetime of each, and its received bytes.
type bounds struct {
	places int
	time   time.Duration // 0: no limit
	bytes  int64
}

// A newcomer costs about 10 KiB: a goroutine and half of a handshake. An unauthenticated connection
// also has the buffers of TLS and HTTP/2: about 50 KiB, and the bytes that it sends.
var byClass = [...]bounds{
	newcomer:        {places: 512, time: 5 * time.Second, bytes: 16 << 10},
	unauthenticated: {places: 128, time: 20 * time.Second, bytes: 64 << 10},
	operator:        {places: 128, bytes: math.MaxInt64},
}

const (
	// eachToken bounds the connections of one token, so that one holder cannot take all places.
	eachToken = 64
	// openCalls bounds the open calls, and refusals the refused calls, of one unauthenticated
	// connection. The proof of a coordinator takes one open call.
	openCalls = 2
	refusals  = 4
	// unused is how long an operator's connection without a call keeps its class when another
	// caller needs the place, or when it calls without a token.
	unused = 20 * time.Second
)

// Callers has the connections of one API. Safe for concurrent use.
type Callers struct {
	cfg     Config
	tokens  *tokens
	classes [len(byClass)]bounds
	// ctx ends with Close, and ends all checks of tokens.
	ctx context.Context //nolint:containedctx // of connections and questions, not of a call
	end context.CancelFunc

	mu   sync.Mutex
	held [len(byClass)]map[*conn]struct{} // guarded by mu
	made uint64                           // guarded by mu; number of connections so far
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

// Close cancels the checks of tokens and waits for their end. From then on calls with unknown
// tokens are refused. Close leaves connections open.
func (c *Callers) Close() {
	c.end()
	c.tokens.wait()
}

// Unauthenticated returns the number of connections without a valid token, including those in their
// handshake.
func (c *Callers) Unauthenticated() int { return c.count(newcomer) + c.count(unauthenticated) }

// Operators returns the number of connections with a valid token.
func (c *Callers) Operators() int { return c.count(operator) }

func (c *Callers) count(of class) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held[of])
}

// Listener registers l's connections as newcomers.
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

// hold registers a connection. Another connection may have to leave for it.
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

// handshaken moves a newcomer to the unauthenticated connections.
func (c *Callers) handshaken(one *conn) {
	c.mu.Lock()
	c.moveLocked(one, unauthenticated)
	out := c.crowdedLocked(unauthenticated)
	c.mu.Unlock()
	if out != nil {
		_ = out.Close()
	}
}

// moveLocked moves a connection to another class; a closed connection stays closed.
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

// crowdedLocked returns the connection that must leave a class above its number of places: the
// oldest connection of the source with the most connections.
func (c *Callers) crowdedLocked(in class) *conn {
	if len(c.held[in]) <= c.classes[in].places {
		return nil
	}
	return oldest(c.held[in], func(one *conn) string { return one.source }, func(*conn) bool { return true })
}

// oldest returns the oldest removable connection of the owner with the most connections.
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

// promote moves a connection with a good token to the operators' class. promote returns false if no
// place is free and every place is in use.
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

// disown moves the idle connections of a token to the unauthenticated ones. A running call ends
// when Consul refuses its next access.
func (c *Callers) disown(token digest) {
	c.mu.Lock()
	var out []*conn
	for one := range c.held[operator] {
		if one.token != token || one.running > 0 {
			continue
		}
		c.moveLocked(one, unauthenticated)
		if left := c.crowdedLocked(unauthenticated); left != nil {
			delete(c.held[left.class], left)
			out = append(out, left)
		}
	}
	c.mu.Unlock()
	for _, one := range out {
		_ = one.Close()
	}
}

// Forget ends the good standing of the token with this SHA-256, in hex: its idle connections become
// unauthenticated ones, and its next call waits for a check.
func (c *Callers) Forget(sha256Hex string) {
	raw, err := hex.DecodeString(sha256Hex)
	if err != nil || len(raw) != sha256.Size {
		return
	}
	sum := digest(raw)
	c.tokens.forget(sum)
	c.disown(sum)
}

// digest identifies a token, so that no secret is stored.
type digest [sha256.Size]byte
