package xds

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/tokens"
)

// Tokens issues and revokes the tokens of streams. Package tokens documents the methods.
type Tokens interface {
	XDS(ctx context.Context, s tokens.Streams) (tokens.Token, error)
	XDSTokens(ctx context.Context, coordinator string) ([]tokens.Owned, error)
	Revoke(ctx context.Context, accessors ...string) error
}

const (
	// issueLimit bounds the issue of a token.
	issueLimit = 10 * time.Second
	// idleKept is how long an unused token is kept.
	idleKept = 10 * time.Minute
	// tendEvery is the interval of revoking unused tokens, and sweepEvery that of looking for
	// unknown ones.
	tendEvery  = time.Minute
	sweepEvery = 10 * time.Minute
	// farewell bounds the revocation of all tokens at the end.
	farewell = 2 * time.Second
	// leastLeft is the minimum remaining life of a token for a new stream.
	leastLeft = 5 * time.Minute
)

// token is a token with its open streams.
type token struct {
	tokens.Token
	services []string
	made     time.Time
	// streams and the fields below are guarded by the keeper's mu.
	streams int
	idle    time.Time // since when streams is zero
	spent   bool      // no new stream uses it
}

// tokenGroup is the state of a group.
type tokenGroup struct {
	turn    chan struct{} // capacity 1: taken by the goroutine that issues a token
	current *token        // guarded by the keeper's mu; nil: none
}

// keeper has at most one current token for each group with streams, and the earlier tokens as long
// as streams use them. Safe for concurrent use.
type keeper struct {
	tokens  Tokens
	streams tokens.Streams // the holder of the tokens
	now     func() time.Time
	log     *slog.Logger

	mu     sync.Mutex
	groups map[string]*tokenGroup // guarded by mu
	all    []*token               // guarded by mu; not revoked yet
	ended  bool                   // guarded by mu; no more tokens
}

func newKeeper(cfg Config) *keeper {
	return &keeper{
		tokens: cfg.Tokens, streams: tokens.Streams{Coordinator: cfg.Coordinator, BootID: cfg.BootID, Simulated: cfg.Simulated},
		now: cfg.Now, log: cfg.Log, groups: map[string]*tokenGroup{},
	}
}

var errEnded = errors.New("the coordinator ends")

// take returns a token with the right to these services of the group, until release. It issues one
// when there is none, when the current one has other services, and in the second half of its life.
func (k *keeper) take(ctx context.Context, group string, services []string) (*token, error) {
	g := k.group(group)
	if t := k.use(g, services, false); t != nil {
		return t, nil
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if t := k.use(g, services, false); t != nil {
		return t, nil // another goroutine issued it meanwhile
	}
	made, err := k.make(ctx, g, group, services)
	if err == nil {
		return made, nil
	}
	if t := k.use(g, services, true); t != nil {
		return t, nil
	}
	return nil, err
}

func (k *keeper) group(name string) *tokenGroup {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.groups[name]
	if g == nil {
		g = &tokenGroup{turn: make(chan struct{}, 1)}
		k.groups[name] = g
	}
	return g
}

// use adds a stream to the group's token if it is valid; late: also when a new token is due.
func (k *keeper) use(g *tokenGroup, services []string, late bool) *token {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, now := g.current, k.now()
	switch {
	case k.ended, t == nil, t.spent, !slices.Equal(t.services, services):
		return nil
	case !late && now.Sub(t.made) >= t.ExpiresAt.Sub(t.made)/2, t.ExpiresAt.Sub(now) < leastLeft:
		return nil
	}
	t.streams++
	return t
}

// make issues the group's next token, with one stream.
func (k *keeper) make(ctx context.Context, g *tokenGroup, group string, services []string) (*token, error) {
	want := k.streams
	want.Group, want.Services = group, services
	// The issue goes on when this caller is cut off, because other callers of the group wait for
	// it.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), issueLimit)
	defer cancel()
	made := k.now()
	one, err := k.tokens.XDS(call, want)
	if err != nil {
		return nil, err
	}
	t := &token{Token: one, services: services, made: made, streams: 1}
	k.mu.Lock()
	before, ended := g.current, k.ended
	if !ended {
		g.current = t
		k.groups[group] = g // it may have been dropped while it was unused
	}
	if before != nil {
		before.spent = true
	}
	k.all = append(k.all, t)
	if ended {
		t.spent, t.streams = true, 0
	}
	k.mu.Unlock()
	if ended {
		k.tend(call)
		return nil, errEnded
	}
	return t, nil
}

// release ends a stream's use of the token.
func (k *keeper) release(t *token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.streams--
	t.idle = k.now()
}

// spend stops new streams from using it: Consul does not know the token, or its rights.
func (k *keeper) spend(t *token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.spent = true
}

// until returns when a new stream with t must end: well before t expires, and spread over time.
func (k *keeper) until(t *token) time.Duration {
	left := t.ExpiresAt.Sub(k.now())
	return left/2 + time.Duration(rand.Float64()*0.4*float64(left)) //nolint:gosec // it spreads work
}

// run revokes tokens until ctx ends, and then all of them.
func (k *keeper) run(ctx context.Context) {
	// The first sweep for tokens of an earlier Boot is soon after the start, when Consul has a
	// leader.
	tend, sweep := time.NewTicker(tendEvery), time.NewTimer(tendEvery)
	defer tend.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			k.end(context.WithoutCancel(ctx))
			return
		case <-tend.C:
			k.tend(ctx)
		case <-sweep.C:
			k.sweep(ctx)
			sweep.Reset(sweepEvery)
		}
	}
}

// end revokes all tokens, also those in use.
func (k *keeper) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	k.mu.Lock()
	k.ended = true
	for _, t := range k.all {
		t.spent, t.streams = true, 0
	}
	k.mu.Unlock()
	k.tend(ctx)
}

// tend revokes unused tokens: at once when no new stream may use them, the others after a while.
func (k *keeper) tend(ctx context.Context) {
	k.mu.Lock()
	now := k.now()
	var over []*token
	for _, t := range k.all {
		if t.streams <= 0 && (t.spent || now.Sub(t.idle) >= idleKept) {
			t.spent = true
			over = append(over, t)
		}
	}
	for name, g := range k.groups {
		if g.current != nil && g.current.spent {
			g.current = nil
		}
		if g.current == nil && len(g.turn) == 0 {
			delete(k.groups, name)
		}
	}
	k.mu.Unlock()
	for _, t := range over {
		if err := k.tokens.Revoke(ctx, t.Accessor); err != nil {
			if ctx.Err() == nil {
				k.log.Warn("token of streams not revoked; it expires", "error", err)
			}
			continue // retried later
		}
		k.mu.Lock()
		k.all = slices.DeleteFunc(k.all, func(one *token) bool { return one == t })
		k.mu.Unlock()
	}
	k.forgetEnded()
}

// forgetEnded drops expired tokens.
func (k *keeper) forgetEnded() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, func(t *token) bool { return t.streams <= 0 && k.now().After(t.ExpiresAt) })
}

// sweep revokes the tokens of this coordinator that it does not know: it issued them before a
// restart, or never received the answer.
func (k *keeper) sweep(ctx context.Context) {
	owned, err := k.tokens.XDSTokens(ctx, k.streams.Coordinator)
	if err == nil {
		var accessors []string
		for _, t := range tokens.Unrecorded(owned, k.knows, k.now()) {
			accessors = append(accessors, t.Accessor)
		}
		err = k.tokens.Revoke(ctx, accessors...)
	}
	if err != nil && ctx.Err() == nil {
		k.log.Warn("tokens of streams not swept", "error", err)
	}
}

func (k *keeper) knows(_, accessor string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.all, func(t *token) bool { return t.Accessor == accessor })
}
