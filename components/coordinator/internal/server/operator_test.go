package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
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

func denied(err error) bool {
	var code consul.StatusError
	return errors.As(err, &code) && code.Code == 403
}

func ask(t *testing.T, s *Server, token string) error {
	t.Helper()
	_, err := s.ListGroups(as(t.Context(), token), &apiv1.ListGroupsRequest{})
	return err
}

// TestThreat_TOK04_ADeletedOperatorTokenStaysDeleted: its holder shows it again to the
// coordinator that made it, to that one after a restart, and to another one, which leads
// by then. Only another digest in the measured trust file brings a token in again.
func TestThreat_TOK04_ADeletedOperatorTokenStaysDeleted(t *testing.T) {
	a := newAPI(t)
	if err := ask(t, a.Server, operatorToken); err != nil {
		t.Fatal(err)
	}
	own, _, err := a.consul.ACL().TokenReadSelf(&consul.QueryOptions{Token: operatorToken})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.consul.ACL().TokenDelete(own.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
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

// TestTheOperatorsTokenIsMadeOnceByManyCoordinators that are shown it at the same moment,
// and by a second one when the first died while it made it, not before.
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
