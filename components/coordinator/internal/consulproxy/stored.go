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
	// stockStep is the amount that a group may write on this coordinator between two measurements.
	stockStep = 512 << 10
	// stockFull is how long a full group is refused without a measurement.
	stockFull = 2 * time.Second
	// keyCost is the size of each key's metadata in Consul's answer.
	keyCost = 256
)

// stored returns the size of a key at path with a value of n bytes in Consul's answer.
func stored(path string, n int) int { return len(path) + (n+2)/3*4 + keyCost }

// stocks bound the stored keys of groups in Consul. Each coordinator measures separately. A group
// may therefore exceed its bound by its writes on the other coordinators, at most one stockStep on
// each. Safe for concurrent use.
type stocks struct {
	most int
	now  func() time.Time

	mu     sync.Mutex
	groups map[string]*stock   // guarded by mu
	making map[string]struct{} // guarded by mu; Slots that make a session
}

// stock is the state of one group. The holder of its turn measures.
type stock struct {
	turn chan struct{} // capacity 1
	left int           // bytes that may be written before the next measurement; for the holder of the turn
	full time.Time     // end of the time without room; for the holder of the turn
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

// alone takes the only place for a session that a Slot makes.
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

// await takes the turn. Consul may take long to show all keys of the group. Meanwhile the group's
// other requests wait here without a place at Consul, or they would take the places of all members.
func (s *stock) await(ctx context.Context, at *place) *Refusal {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	at.leave()
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, errors.New("other members of the group also wait for it"))
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return unavailable("measure the group's keys", context.Cause(ctx))
	}
	refused := at.take()
	if refused != nil {
		<-s.turn
	}
	return refused
}

// roomFor refuses a write that would exceed the bound of the caller's group. The request may have
// another place at Consul afterwards.
func (d *Proxy) roomFor(ctx context.Context, c Caller, token string, added int, at *place) *Refusal {
	if added == 0 {
		return nil
	}
	one := d.stocks.of(c.Group)
	if refused := one.await(ctx, at); refused != nil {
		return refused
	}
	defer func() { <-one.turn }()
	full := overloaded("group %s has %s of keys, as Consul shows them; delete some", c.Group, size(d.stocks.most))
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

// measure returns the size of the group's keys in Consul's answer, at most one byte above the
// bound.
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
		return 0, nil // the group has no keys, or the token may not read them: Consul returns the error
	default:
		return 0, unavailable("measure the group's keys", errors.New(resp.Status))
	}
	n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, int64(d.stocks.most)+1))
	if err != nil {
		return 0, unavailable("measure the group's keys", err)
	}
	return int(n), nil
}
