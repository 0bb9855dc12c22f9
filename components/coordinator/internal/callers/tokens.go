package callers

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// askers bounds the concurrent checks of unknown tokens, and askTime the wait and the check of
	// one.
	askers  = 4
	askTime = 10 * time.Second
	// askAgain is how long a good token is accepted without a new check. refuseFor is how long a
	// bad token is refused without a check: it is short, because the token may just have been
	// created.
	askAgain  = time.Minute
	refuseFor = 2 * time.Second
	// remembered bounds both sets of tokens. Consul bounds the number of good ones.
	remembered = 1024
)

// tokens caches the results of token checks, by the tokens' digests. Safe for concurrent use.
type tokens struct {
	check   func(context.Context, string) error
	refused func(error) bool
	disown  func(digest)
	turns   *turns
	ctx     context.Context //nolint:containedctx // of checks outside of a call
	asks    sync.WaitGroup

	mu   sync.Mutex
	good map[digest]*good     // guarded by mu
	bad  map[digest]time.Time // guarded by mu; end of the refusal
}

type good struct {
	checked time.Time // zero: must be checked
	asking  bool
}

func newTokens(ctx context.Context, cfg Config, disown func(digest)) *tokens {
	return &tokens{
		check: cfg.Check, refused: cfg.Refused, disown: disown, turns: newTurns(askers), ctx: ctx,
		good: map[digest]*good{}, bad: map[digest]time.Time{},
	}
}

// wait is called after ctx has ended.
func (t *tokens) wait() {
	t.mu.Lock()   // checks that began before are counted
	t.mu.Unlock() //nolint:staticcheck // as the line above says
	t.asks.Wait()
}

var errNoOperator = status.Error(codes.PermissionDenied, "this token is not an operator's, or Consul does not know it")

// judge returns nil for a good token. A known good token does not wait for a check.
func (t *tokens) judge(one *conn, sum digest, token string) error {
	if decided, err := t.remembers(sum, token); decided {
		return err
	}
	ctx, cancel := context.WithTimeout(one.ctx, askTime)
	defer cancel()
	if !t.turns.enter(ctx, one.source) {
		return status.Error(codes.Unavailable, "OVERLOADED: too many token checks at once; try again")
	}
	err := t.check(ctx, token)
	t.turns.leave()
	return t.learn(sum, err)
}

func (t *tokens) remembers(sum digest, token string) (decided bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.good[sum]; g != nil {
		if !g.asking && time.Since(g.checked) >= askAgain && t.ctx.Err() == nil {
			g.asking = true
			t.asks.Go(func() { t.again(sum, token) })
		}
		return true, nil
	}
	if time.Now().Before(t.bad[sum]) {
		return true, errNoOperator
	}
	return false, nil
}

// again checks a good token whose last check is old.
func (t *tokens) again(sum digest, token string) {
	ctx, cancel := context.WithTimeout(t.ctx, askTime)
	defer cancel()
	if t.learn(sum, t.check(ctx, token)) == errNoOperator { //nolint:errorlint // it is that one
		t.disown(sum)
	}
}

// learn caches the result of a check and returns the error for the caller. After a failed check a
// good token stays good: the check decides about capacity, and not about rights.
func (t *tokens) learn(sum digest, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.good[sum]; g != nil {
		g.asking = false
	}
	now := time.Now()
	switch {
	case err == nil:
		if len(t.good) >= remembered {
			clear(t.good)
		}
		t.good[sum] = &good{checked: now}
		delete(t.bad, sum)
		return nil
	case t.refused(err):
		if len(t.bad) >= remembered {
			clear(t.bad)
		}
		delete(t.good, sum)
		t.bad[sum] = now.Add(refuseFor)
		return errNoOperator
	}
	return status.Error(codes.Unavailable, "the token cannot be checked now: "+err.Error())
}

// doubt makes the next call of a good token check it.
func (t *tokens) doubt(sum digest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.good[sum]; g != nil {
		g.checked = time.Time{}
	}
}

// forget makes the next call of a token wait for a check.
func (t *tokens) forget(sum digest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.good, sum)
}
