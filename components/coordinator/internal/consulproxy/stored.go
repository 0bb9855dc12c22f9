package consulproxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// stockStep is how much a group may write here before what it has is measured anew.
	stockStep = 512 << 10
	// stockFull is for how long a group that has no room is refused without a measurement.
	stockFull = 2 * time.Second
	// keyCost is what Consul shows of each key beside its name and value.
	keyCost = 256
)

// stored is what a key at path with a value of n bytes adds to what Consul shows of it.
func stored(path string, n int) int { return len(path) + (n+2)/3*4 + keyCost }

// stocks bound what groups keep in Consul. Each coordinator measures for itself, so that a
// group may exceed its bound by what it writes at the others meanwhile: a stockStep for each.
// Safe for concurrent use.
type stocks struct {
	most int
	now  func() time.Time

	mu     sync.Mutex
	groups map[string]*stock   // guarded by mu
	making map[string]struct{} // guarded by mu; Slots that make a session
}

// stock is one group's. Its turn is had while it is measured.
type stock struct {
	turn chan struct{} // capacity 1
	left int           // what may be written before it is measured; of who has the turn
	full time.Time     // until when it has no room; of who has the turn
}

func newStocks(limits Limits, now func() time.Time) *stocks {
	return &stocks{most: limits.complete().Stored, now: now, groups: map[string]*stock{}, making: map[string]struct{}{}}
}

func (s *stocks) of(group string) *stock {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.groups[group]
	if one == nil {
		one = &stock{turn: make(chan struct{}, 1)}
		s.groups[group] = one
	}
	return one
}

// alone takes the one place for a session that a Slot makes.
func (s *stocks) alone(slot string) (over func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, busy := s.making[slot]; busy {
		return nil, false
	}
	s.making[slot] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.making, slot)
	}, true
}

// await has the turn, for which the group's other requests may wait while one of them has
// Consul show all that the group keeps: without a place, or they would take those of all.
func (s *stock) await(ctx context.Context, at *place) *Refusal {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	at.leave()
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, errors.New("others of the group wait for it, too"))
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return unavailable("what the group keeps", context.Cause(ctx))
	}
	refused := at.take()
	if refused != nil {
		<-s.turn
	}
	return refused
}

// roomFor refuses what would have the caller's group keep more than it may. The place at
// Consul may be another one afterwards.
func (d *Proxy) roomFor(ctx context.Context, c Caller, token string, added int, at *place) *Refusal {
	if added == 0 {
		return nil
	}
	one := d.stocks.of(c.Group)
	if refused := one.await(ctx, at); refused != nil {
		return refused
	}
	defer func() { <-one.turn }()
	full := overloaded("group %s keeps %s of keys, as Consul shows them; delete some", c.Group, size(d.stocks.most))
	switch now := d.stocks.now(); {
	case added <= one.left:
		one.left -= added
		return nil
	case now.Before(one.full):
		return full
	}
	used, refused := d.measure(ctx, c, token)
	if refused != nil {
		return refused
	}
	room := d.stocks.most - used
	if added > room {
		one.left, one.full = 0, d.stocks.now().Add(stockFull)
		return full
	}
	one.left = min(max(stockStep, added), room) - added
	return nil
}

// measure is how much Consul shows of the group's keys, at most a byte more than it may have.
func (d *Proxy) measure(ctx context.Context, c Caller, token string) (int, *Refusal) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	resp, refused := d.ask(ctx, "/v1/kv/"+Scope(c.Group), url.Values{"recurse": {""}, "stale": {""}}, token)
	if refused != nil {
		return 0, refused
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusForbidden:
		return 0, nil // there are none, or it may not see them: Consul says so in its own words
	default:
		return 0, unavailable("what the group keeps", errors.New(resp.Status))
	}
	n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, int64(d.stocks.most)+1))
	if err != nil {
		return 0, unavailable("what the group keeps", err)
	}
	return int(n), nil
}
