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

// Tokens makes the tokens that streams are opened with, and takes them back. Package tokens says
// what each does.
type Tokens interface {
	XDS(ctx context.Context, s tokens.Streams) (tokens.Token, error)
	XDSTokens(ctx context.Context, coordinator string) ([]tokens.Owned, error)
	Revoke(ctx context.Context, accessors ...string) error
}

const (
	// issueLimit bounds the making of a token.
	issueLimit = 10 * time.Second
	// idleKept is how long a token is kept that no stream uses.
	idleKept = 10 * time.Minute
	// tendEvery paces the revocation of those, and sweepEvery the look for what was left behind.
	tendEvery  = time.Minute
	sweepEvery = 10 * time.Minute
	// farewell bounds the revocation of all at the end.
	farewell = 2 * time.Second
	// leastLeft is how long a token must live yet for a stream to be opened with it.
	leastLeft = 5 * time.Minute
)

// token is one that streams are open with.
type token struct {
	tokens.Token
	services []string
	made     time.Time
	// Guarded by the keeper's mu, as the rest is.
	streams int
	idle    time.Time // since when streams is zero
	spent   bool      // no stream is opened with it any more
}

// tokenGroup is what a group has.
type tokenGroup struct {
	turn    chan struct{} // capacity 1: had by the one who makes a token
	current *token        // guarded by the keeper's mu; nil: none
}

// keeper has at most one token for each group that streams are opened with, and those before it
// for as long as streams are open with them. Safe for concurrent use.
type keeper struct {
	tokens  Tokens
	streams tokens.Streams // whose they are
	now     func() time.Time
	log     *slog.Logger

	mu     sync.Mutex
	groups map[string]*tokenGroup // guarded by mu
	all    []*token               // guarded by mu; not revoked yet
	ended  bool                   // guarded by mu; there are to be no more
}

func newKeeper(cfg Config) *keeper {
	return &keeper{
		tokens: cfg.Tokens, streams: tokens.Streams{Coordinator: cfg.Coordinator, BootID: cfg.BootID, Simulated: cfg.Simulated},
		now: cfg.Now, log: cfg.Log, groups: map[string]*tokenGroup{},
	}
}

var errEnded = errors.New("the coordinator ends")

// take gives a token with the right to these services of the group, until release. It is made
// where there is none, where it has other services, and in the second half of its life.
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
		return t, nil // somebody made it meanwhile
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

// use counts a stream with the group's token, if it is good; late: also when a new one is due.
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

// make makes the group's next token, with a stream counted.
func (k *keeper) make(ctx context.Context, g *tokenGroup, group string, services []string) (*token, error) {
	want := k.streams
	want.Group, want.Services = group, services
	// Whoever is cut off meanwhile, others of the group wait for it.
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
		k.groups[group] = g // it may have been dropped while nobody used it
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

// release tells that a stream with it has ended.
func (k *keeper) release(t *token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.streams--
	t.idle = k.now()
}

// spend has no stream opened with it any more: Consul does not know it, or not its rights.
func (k *keeper) spend(t *token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.spent = true
}

// until is when a stream that is opened now with t ends: well before t does, and not all at once.
func (k *keeper) until(t *token) time.Duration {
	left := t.ExpiresAt.Sub(k.now())
	return left/2 + time.Duration(rand.Float64()*0.4*float64(left)) //nolint:gosec // it spreads work
}

// run takes tokens back until ctx ends, and then all.
func (k *keeper) run(ctx context.Context) {
	// What is left behind by a Boot before is looked for soon, when Consul has a leader.
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

// end takes all tokens back, whoever uses them.
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

// tend revokes what no stream uses: at once what none is opened with, the rest after a while.
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
				k.log.Warn("token of streams not revoked; it ends by itself", "error", err)
			}
			continue // tried again
		}
		k.mu.Lock()
		k.all = slices.DeleteFunc(k.all, func(one *token) bool { return one == t })
		k.mu.Unlock()
	}
	k.forgetEnded()
}

// forgetEnded drops tokens that have ended by themselves.
func (k *keeper) forgetEnded() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, func(t *token) bool { return t.streams <= 0 && k.now().After(t.ExpiresAt) })
}

// sweep revokes the tokens of this coordinator that it does not know: it made them before it was
// started again, or never heard that they were made.
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
