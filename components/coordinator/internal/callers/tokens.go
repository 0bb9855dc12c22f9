package callers

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// askers is how many tokens nobody knows yet are asked about at once, askTime how long
	// one waits and is asked about.
	askers  = 4
	askTime = 10 * time.Second
	// askAgain is how long a good token is not asked about; refuseFor how long one that is
	// none is refused unasked, which is soon over for one that has just been made.
	askAgain  = time.Minute
	refuseFor = 2 * time.Second
	// remembered bounds both kinds. Good ones are as many as Consul has.
	remembered = 1024
)

// tokens remembers which tokens are good, by their digests. Safe for concurrent use.
type tokens struct {
	check   func(context.Context, string) error
	refused func(error) bool
	disown  func(digest)
	turns   *turns
	ctx     context.Context //nolint:containedctx // of what is asked beside a call
	asks    sync.WaitGroup

	mu   sync.Mutex
	good map[digest]*good     // guarded by mu
	bad  map[digest]time.Time // guarded by mu; until when they are refused
}

type good struct {
	checked time.Time // zero: in doubt
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
	t.mu.Lock()   // whoever began to ask before is counted
	t.mu.Unlock() //nolint:staticcheck // as the line above says
	t.asks.Wait()
}

var errNoOperator = status.Error(codes.PermissionDenied, "this token is no operator's, or not known to Consul")

// judge is nil for a good token. A good one that is known does not wait for anybody.
func (t *tokens) judge(one *conn, sum digest, token string) error {
	if decided, err := t.remembers(sum, token); decided {
		return err
	}
	ctx, cancel := context.WithTimeout(one.ctx, askTime)
	defer cancel()
	if !t.turns.enter(ctx, one.source) {
		return status.Error(codes.Unavailable, "OVERLOADED: too many tokens have to be asked about at once; try again")
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

// again asks about a good token that was asked about long ago.
func (t *tokens) again(sum digest, token string) {
	ctx, cancel := context.WithTimeout(t.ctx, askTime)
	defer cancel()
	if t.learn(sum, t.check(ctx, token)) == errNoOperator { //nolint:errorlint // it is that one
		t.disown(sum)
	}
}

// learn remembers an answer and gives it as the caller is told it. What could not be found
// out leaves a good token good: what it may do is not decided here.
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

// doubt has a good token asked about at its next call.
func (t *tokens) doubt(sum digest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.good[sum]; g != nil {
		g.checked = time.Time{}
	}
}
