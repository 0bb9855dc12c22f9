package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/tokens"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// knows reports whether Consul has the token.
func (a *api) knows(t *testing.T, token string) bool {
	t.Helper()
	_, _, err := a.consul.ACL().TokenReadSelf(&consul.QueryOptions{Token: token, RequireConsistent: true})
	if err != nil && !denied(err) {
		t.Fatal(err)
	}
	return err == nil
}

// forget deletes the token in Consul.
func (a *api) forget(t *testing.T, token string) {
	t.Helper()
	own, _, err := a.consul.ACL().TokenReadSelf(&consul.QueryOptions{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.consul.ACL().TokenDelete(own.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
}

func denied(err error) bool {
	var code consul.StatusError
	return errors.As(err, &code) && code.Code == 403
}

func ask(t *testing.T, s *Server, token string) error {
	t.Helper()
	_, err := s.ListGroups(as(t.Context(), token), &apiv1.ListGroupsRequest{})
	return err
}

// TestThreat_TOK04_ADeletedOperatorTokenStaysDeleted: its holder uses it again at the coordinator
// that created it, at that one after a restart, and at another one, which leads by then. Only
// another digest in the measured trust file creates a token again.
func TestThreat_TOK04_ADeletedOperatorTokenStaysDeleted(t *testing.T) {
	a := newAPI(t)
	if err := ask(t, a.Server, operatorToken); err != nil {
		t.Fatal(err)
	}
	a.forget(t, operatorToken)
	another := a.cfg
	another.Slot = "coordinator-1"
	lease, err := store.AcquireBlocking(t.Context(), another.Store, another.Slot, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lease.Release(t.Context()) }()
	for name, s := range map[string]*Server{"the same coordinator": a.Server, "after a restart": New(a.cfg), "another one": New(another)} {
		if err := ask(t, s, operatorToken); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v, want %v", name, err, codes.PermissionDenied)
		}
		if a.knows(t, operatorToken) {
			t.Fatalf("%s made it again", name)
		}
	}
	const next = "1e4d0f6f-4a2c-4b64-9a5f-3a4a2a1b8c22"
	sum := sha256.Sum256([]byte(next))
	another.OperatorTokenSHA256 = hex.EncodeToString(sum[:])
	if err := ask(t, New(another), next); err != nil || !a.knows(t, next) || a.knows(t, operatorToken) {
		t.Errorf("a token of another digest: %v", err)
	}
}

// TestTheOperatorsTokenIsMadeOnceByManyCoordinators: many coordinators receive it at the same
// moment. A second one creates it only after the first died during the creation.
func TestTheOperatorsTokenIsMadeOnceByManyCoordinators(t *testing.T) {
	a := newAPI(t)
	var all sync.WaitGroup
	for _, slot := range []string{"coordinator-0", "coordinator-1", "coordinator-2"} {
		cfg := a.cfg
		cfg.Slot = slot
		s := New(cfg)
		all.Go(func() {
			if err := ask(t, s, operatorToken); err != nil {
				t.Errorf("%s: %v", slot, err)
			}
		})
	}
	all.Wait()
	key := store.OperatorTokenKey(a.cfg.OperatorTokenSHA256)
	made, _, err := store.Read[store.OperatorToken](t.Context(), a.cfg.Store, key)
	if err != nil || !made.Made || made.SHA256 != a.cfg.OperatorTokenSHA256 {
		t.Fatalf("recorded %+v, %v", made, err)
	}

	const next = "1e4d0f6f-4a2c-4b64-9a5f-3a4a2a1b8c22"
	sum := sha256.Sum256([]byte(next))
	cfg := a.cfg
	cfg.OperatorTokenSHA256 = hex.EncodeToString(sum[:])
	put(a, t, store.OperatorTokenKey(cfg.OperatorTokenSHA256), store.OperatorToken{
		SHA256: cfg.OperatorTokenSHA256, By: "coordinator-1", At: a.now().UTC(),
	})
	v, _ := cfg.Views.Latest()
	if err := New(cfg).makeOnce(t.Context(), next, cfg.OperatorTokenSHA256, v); !errors.Is(err, errMaking) || a.knows(t, next) {
		t.Errorf("while another one makes it: %v", err)
	}
	a.mu.Lock()
	a.offset = abandoned + time.Second
	a.mu.Unlock()
	if err := ask(t, New(cfg), next); err != nil || !a.knows(t, next) {
		t.Errorf("once that one is gone: %v", err)
	}
	put(a, t, store.OperatorTokenKey(cfg.OperatorTokenSHA256), "not a record")
	s := New(cfg)
	if err := s.makeOnce(t.Context(), next, cfg.OperatorTokenSHA256, v); err != nil {
		t.Errorf("a record that cannot be read: %v", err)
	}
}

// TestThreat_TOK04_ATokenWhoseMakerDiedIsMadeAndStaysDeleted: a coordinator with a fast clock died
// between creating the token and recording that. The token works at once on another coordinator,
// which records the creation. After that a deletion is permanent.
func TestThreat_TOK04_ATokenWhoseMakerDiedIsMadeAndStaysDeleted(t *testing.T) {
	a := newAPI(t)
	key := store.OperatorTokenKey(a.cfg.OperatorTokenSHA256)
	began := store.OperatorToken{SHA256: a.cfg.OperatorTokenSHA256, By: "coordinator-1", At: a.now().Add(time.Hour).UTC()}
	put(a, t, key, began)
	if err := a.issuer.EnsureOperator(t.Context(), operatorToken, nil); err != nil {
		t.Fatal(err)
	}
	if err := ask(t, a.Server, operatorToken); err != nil {
		t.Fatalf("a token that is there: %v", err)
	}
	made, _, err := store.Read[store.OperatorToken](t.Context(), a.cfg.Store, key)
	if err != nil || !made.Made || made.By != began.By || !made.At.Equal(began.At) {
		t.Errorf("recorded %+v, %v", made, err)
	}
	a.forget(t, operatorToken)
	a.mu.Lock()
	a.offset = time.Hour + abandoned + time.Second
	a.mu.Unlock()
	for _, slot := range []string{"coordinator-0", "coordinator-1", "coordinator-2"} {
		cfg := a.cfg
		cfg.Slot = slot
		if err := ask(t, New(cfg), operatorToken); status.Code(err) != codes.PermissionDenied || a.knows(t, operatorToken) {
			t.Errorf("%s, when it was deleted: %v, want %v", slot, err, codes.PermissionDenied)
		}
	}
}

// slowTokens delays its answer about a token's holder until release.
type slowTokens struct {
	Tokens
	asked, letGo chan struct{}
}

func (h slowTokens) NameOf(context.Context, string) (string, error) {
	h.asked <- struct{}{}
	<-h.letGo
	return "", tokens.ErrDenied
}

// TestNoCallWaitsBehindACallThatWaitsForTheOperatorsToken: a call waits at most its own time, and a
// check whether the token may be created does not wait at all.
func TestNoCallWaitsBehindACallThatWaitsForTheOperatorsToken(t *testing.T) {
	sum := sha256.Sum256([]byte(operatorToken))
	digest := hex.EncodeToString(sum[:])
	slow := slowTokens{asked: make(chan struct{}), letGo: make(chan struct{})}
	s := New(Config{
		Slot: "coordinator-0", OperatorTokenSHA256: digest, Store: storetest.NewMemory(), Tokens: slow,
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	put, err := store.Put(store.OperatorTokenKey(digest), store.OperatorToken{SHA256: digest, By: "coordinator-1", At: time.Now().UTC()}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cfg.Store.Commit(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, others := make(chan error, 1), make(chan error, 1)
	go func() { first <- s.firstUse(ctx, operatorToken, nil) }()
	select {
	case <-slow.asked: // it has its turn, and keeps it
	case err := <-first:
		t.Fatalf("it did not ask who made it: %v", err)
	}
	go func() {
		if may, err := s.mayBeFirst(t.Context(), operatorToken); err != nil || !may {
			t.Errorf("it may not be made: %v", err)
		}
		over, end := context.WithCancel(t.Context())
		end()
		others <- s.firstUse(over, operatorToken, nil)
	}()
	select {
	case err := <-others:
		if status.Code(err) != codes.Unavailable {
			t.Errorf("a call whose time is over: %v, want %v", err, codes.Unavailable)
		}
	case <-time.After(time.Minute):
		t.Error("another call waits behind the first")
	}
	cancel()
	close(slow.letGo)
	if err := <-first; status.Code(err) != codes.Unavailable {
		t.Errorf("the first call: %v, want %v", err, codes.Unavailable)
	}
}
