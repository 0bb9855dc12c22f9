package xds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/raced/synctest"
)

// life of a token of ledger.
const life = 4 * time.Hour

// ledger is the part of Consul that the keeper uses.
type ledger struct {
	mu      sync.Mutex
	made    []tokens.Streams // guarded by mu, like the fields below
	there   map[string]tokens.Owned
	fails   error
	slow    time.Duration
	revoked int
}

func (l *ledger) XDS(_ context.Context, s tokens.Streams) (tokens.Token, error) {
	l.mu.Lock()
	slow := l.slow
	l.mu.Unlock()
	time.Sleep(slow) // in a bubble of synctest
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails != nil {
		return tokens.Token{}, l.fails
	}
	l.made = append(l.made, s)
	accessor := fmt.Sprint(len(l.made))
	l.there[accessor] = tokens.Owned{Accessor: accessor, Slot: s.Coordinator, CreatedAt: time.Now()}
	return tokens.Token{Accessor: accessor, Secret: "secret " + accessor, ExpiresAt: time.Now().Add(life)}, nil
}

func (l *ledger) XDSTokens(_ context.Context, coordinator string) ([]tokens.Owned, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []tokens.Owned
	for _, t := range l.there {
		if t.Slot == coordinator {
			out = append(out, t)
		}
	}
	return out, l.fails
}

func (l *ledger) Revoke(_ context.Context, accessors ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails != nil {
		return l.fails
	}
	for _, a := range accessors {
		delete(l.there, a)
		l.revoked++
	}
	return nil
}

// has returns the accessors of the existing tokens.
func (l *ledger) has() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for a := range l.there {
		out = append(out, a)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = err
}

// kept runs a test with a running keeper.
func kept(t *testing.T, test func(t *testing.T, l *ledger, k *keeper, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{there: map[string]tokens.Owned{}}
		k := newKeeper(Config{Coordinator: "coordinator-0", BootID: "b", Tokens: l, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.run(ctx) }()
		stop := func() { cancel(); <-done }
		defer stop()
		test(t, l, k, stop)
	})
}

func (k *keeper) must(t *testing.T, group string, services ...string) *token {
	t.Helper()
	one, err := k.take(t.Context(), group, services)
	if err != nil {
		t.Fatal(err)
	}
	return one
}

func wantTokens(t *testing.T, l *ledger, want string) {
	t.Helper()
	synctest.Wait()
	if got := l.has(); got != want {
		t.Errorf("tokens %q, want %q", got, want)
	}
}

func TestStreamsOfAGroupShareAToken(t *testing.T) {
	kept(t, func(t *testing.T, l *ledger, k *keeper, _ func()) {
		l.slow = time.Second
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { k.must(t, "web", "web") })
		}
		all.Wait()
		k.must(t, "db", "db")
		wantTokens(t, l, "1 2")
		if got := l.made[0]; got.Group != "web" || !slices.Equal(got.Services, []string{"web"}) || got.Coordinator != "coordinator-0" || got.BootID != "b" {
			t.Errorf("made %+v", got)
		}
	})
}

func TestOtherServicesHaveAnotherToken(t *testing.T) {
	kept(t, func(t *testing.T, l *ledger, k *keeper, _ func()) {
		before := k.must(t, "web", "web")
		after := k.must(t, "web", "web", "web-api")
		time.Sleep(2 * tendEvery)
		wantTokens(t, l, "1 2") // the first has an open stream
		k.release(before)
		time.Sleep(2 * tendEvery)
		wantTokens(t, l, "2")
		k.release(after)
		time.Sleep(idleKept / 2)
		wantTokens(t, l, "2")
		if again := k.must(t, "web", "web", "web-api"); again != after {
			t.Error("a token that was kept is not used")
		}
		time.Sleep(2 * idleKept)
		wantTokens(t, l, "2")
		k.release(after)
		time.Sleep(idleKept + 2*tendEvery)
		wantTokens(t, l, "")
	})
}

// TestDOR09_StreamsEndBeforeTheirTokens: their ends are spread, and streams opened in the second
// half of a token's life have another token.
func TestDOR09_StreamsEndBeforeTheirTokens(t *testing.T) {
	kept(t, func(t *testing.T, l *ledger, k *keeper, _ func()) {
		first := k.must(t, "web", "web")
		var least, most time.Duration = life, 0
		for range 1000 {
			until := k.until(first)
			least, most = min(least, until), max(most, until)
		}
		if least < life/2 || most > life*9/10 || most-least < life/5 {
			t.Errorf("streams live for %v to %v with a token of %v", least, most, life)
		}
		time.Sleep(life/2 - time.Second)
		if k.must(t, "web", "web") != first {
			t.Error("another token in the first half")
		}
		k.release(first)
		time.Sleep(2 * time.Second)
		l.fail(errors.New("no leader"))
		if k.must(t, "web", "web") != first {
			t.Error("a token that is good is not used where none is to be had")
		}
		k.release(first)
		l.fail(nil)
		second := k.must(t, "web", "web")
		if second == first {
			t.Error("no other token in the second half")
		}
		k.release(first)
		time.Sleep(2 * tendEvery)
		wantTokens(t, l, "2")
		l.fail(errors.New("no leader"))
		time.Sleep(life - leastLeft)
		if one, err := k.take(t.Context(), "web", []string{"web"}); err == nil {
			t.Errorf("a token that ends at %v was given at %v", one.ExpiresAt, time.Now())
		}
		k.release(second)
	})
}

func TestDOR09_ATokenThatConsulDoesNotTakeIsNotUsedAgain(t *testing.T) {
	kept(t, func(t *testing.T, l *ledger, k *keeper, _ func()) {
		first := k.must(t, "web", "web")
		k.spend(first)
		k.release(first)
		if k.must(t, "web", "web") == first {
			t.Error("it is used")
		}
		time.Sleep(2 * tendEvery)
		wantTokens(t, l, "2")
	})
}

// TestTOK12_AtTheEndAllTokensOfStreamsAreTakenBack: a token in the middle of its issue is included.
func TestTOK12_AtTheEndAllTokensOfStreamsAreTakenBack(t *testing.T) {
	kept(t, func(t *testing.T, l *ledger, k *keeper, stop func()) {
		one := k.must(t, "web", "web")
		l.mu.Lock()
		l.slow = time.Second
		l.mu.Unlock()
		late := make(chan error, 1)
		go func() {
			_, err := k.take(t.Context(), "db", []string{"db"})
			late <- err
		}()
		synctest.Wait()
		stop()
		wantTokens(t, l, "")
		if err := <-late; !errors.Is(err, errEnded) {
			t.Errorf("a token after the end: %v", err)
		}
		wantTokens(t, l, "")
		k.release(one)
	})
}

// TestTOK12_TokensOfABootBeforeAreTakenBack: other holders' tokens stay, and a failed revocation is
// retried.
func TestTOK12_TokensOfABootBeforeAreTakenBack(t *testing.T) {
	kept(t, func(t *testing.T, l *ledger, k *keeper, _ func()) {
		l.mu.Lock()
		l.there["left"] = tokens.Owned{Accessor: "left", Slot: "coordinator-0", CreatedAt: time.Now().Add(-time.Hour)}
		l.there["other"] = tokens.Owned{Accessor: "other", Slot: "coordinator-1", CreatedAt: time.Now().Add(-time.Hour)}
		l.mu.Unlock()
		one := k.must(t, "web", "web")
		l.fail(errors.New("no leader"))
		time.Sleep(2 * tendEvery)
		wantTokens(t, l, "1 left other")
		l.fail(nil)
		time.Sleep(sweepEvery)
		wantTokens(t, l, "1 other")
		l.fail(errors.New("no leader"))
		k.spend(one)
		k.release(one)
		time.Sleep(2 * tendEvery)
		wantTokens(t, l, "1 other")
		l.fail(nil)
		time.Sleep(2 * tendEvery)
		wantTokens(t, l, "other")
	})
}
